"""What a round searches: a problem and candidates that take a fraction of a second each."""

from kernelswarm.schemas import Problem, ProblemFormat, Verdict, sha256

POOL = "faults"

POOL_FILE = f"""\
name = "{POOL}"
platform = "cpu"
languages = ["cpp"]
baselines = ["eager"]
candidate_seconds = 20.0
"""

SOURCE = """
import torch
shapes = {"main": dict(rows=64, cols=256), "ragged": dict(rows=5, cols=33)}
def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.randn(cols, generator=generator)]
def reference(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
"""

PROBLEM = Problem(name="rmsnorm", format=ProblemFormat.function, source=SOURCE, sha256=sha256(SOURCE))

_RIGHT = "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w"
_BODIES = {
    "right": _RIGHT,
    "wrong": "return torch.zeros_like(x)",
    "broken": "return (",
    "crash": "import os; os.abort()",
    "slow": "import time; time.sleep(0.2); return torch.ones_like(x)",
}


VERDICTS = {
    "right": (Verdict.correct,),
    "wrong": (Verdict.wrong_numbers,),
    "broken": (Verdict.compile_error, Verdict.load_error),
    "crash": (Verdict.crash,),
    "slow": (Verdict.wrong_numbers,),
}
"""What each must be judged, whatever breaks around it."""

EXCUSED = (Verdict.crash, Verdict.harness_error)
"""What one may be judged besides where a fault kills the very processes that judge."""


def candidate(name: str, number: int) -> str:
    """Source of the candidate ``name``; the ``number`` makes each one a file of its own."""
    return f"import torch\n\n\ndef kernel(x, w):  # {number}\n    {_BODIES[name]}\n"
