"""Triton candidates by Triton's interpreter against eager PyTorch, on the CPU. Run as a script, in its own process,
with TRITON_INTERPRET=1 and this folder and tests/support on the path:

    python triton_candidates.py FOLDER

It writes FOLDER/report.json and every candidate beside it.
"""

import importlib.util
import json
import sys
import traceback
from pathlib import Path

import interpreted  # noqa: F401
import operators
import torch
import triton_products_cases

from kernelswarm.agents.synthesizer.playbook.triton_candidate import generate_triton
from kernelswarm.agents.synthesizer.playbook.triton_knobs import gpu_settings
from kernelswarm.hardware.capture import capture
from kernelswarm.schemas import ProblemFacts, Work


def write(function, inputs, recipe, path):
    """The candidate for an operator captured at ``inputs``."""
    graph = capture(function, inputs)
    work = Work(read_bytes=1, write_bytes=1, flops=1)
    facts = ProblemFacts(signature=(), shapes=(), graph=graph, work=work, dtype="float32", float64_oracle=True)
    path.write_text(generate_triton(facts, graph, gpu_settings(recipe)).source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flat(values):
    if isinstance(values, torch.Tensor):
        return [values]
    return [tensor for value in values for tensor in flat(value)]


def differs(want, got, bound):
    """Why two results are not the same; empty if they are."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{want.dtype}{list(want.shape)} expected, got {got.dtype}{list(got.shape)}"
    if not want.dtype.is_floating_point:
        return "" if torch.equal(want, got) else "other numbers"
    finite = want[torch.isfinite(want)].abs()
    scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
    same = torch.allclose(want.double(), got.double(), rtol=bound, atol=bound * scale, equal_nan=True)
    return "" if same else f"off by {(want.double() - got.double()).abs().max().item():.2e}"


def compare(name, function, makers, recipe, bound, folder):
    """What one operator's report says: differences, kernels, and inputs for which the candidate fell back to ATen."""
    torch.manual_seed(0)
    module = write(function, makers[0](), recipe, folder / f"{name}.py")
    plain, fallbacks, differences = module._aten, [], []

    def aten(*inputs):
        fallbacks.append(number)
        return plain(*inputs)

    module._aten = aten
    for number, make in enumerate(makers):
        inputs = make()
        want = flat(function(*[v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]))
        got = flat(module.kernel(*inputs))
        for place, (w, g) in enumerate(zip(want, got, strict=True)):
            reason = differs(w, g, bound)
            differences += [f"input {number}, output {place}: {reason}"] if reason else []
    return {"differences": differences, "kernels": len(module.TRITON_LAUNCHES), "first_falls_back": 0 in fallbacks}


def main(folder):
    cases = {n: (f, i, {"math": "accurate"}, b or 2e-5) for n, (f, i, _, b) in operators.CASES.items() if n != "module"}
    cases |= triton_products_cases.CASES
    report = {}
    for name, (function, makers, recipe, bound) in cases.items():
        try:
            report[name] = compare(name, function, makers, recipe, bound, folder)
        except Exception:  # noqa: BLE001 - the report says what happened, the other operators go on
            report[name] = {"differences": [traceback.format_exc()[-1500:]], "kernels": 0, "first_falls_back": True}
    (folder / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
