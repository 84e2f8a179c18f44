"""Wrong, broken and cheating kernels: each is refused under the right name, and costs only itself."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from kernelswarm.hardware.device import Device
from kernelswarm.schemas import Problem, ProblemFacts, Verdict, VerifyReport, encode

pytestmark = pytest.mark.asyncio(loop_scope="session")

Verify = Callable[[str], Awaitable[VerifyReport]]

RIGHT = "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w"

WRONG: dict[str, tuple[Verdict, str]] = {
    "zeros": (Verdict.wrong_numbers, "def kernel(x, w): return torch.zeros_like(x)"),
    "the input": (Verdict.wrong_numbers, "def kernel(x, w): return x.clone()"),
    "lower precision": (Verdict.lower_precision, "def kernel(x, w): return reference(x.half(), w.half()).float()"),
    "nan": (Verdict.wrong_numbers, "def kernel(x, w): return reference(x, w) * float('nan')"),
    "another dtype": (Verdict.wrong_type, "def kernel(x, w): return reference(x, w).double()"),
    "two outputs": (Verdict.wrong_type, "def kernel(x, w): return reference(x, w), x"),
    "a list of floats": (Verdict.wrong_type, "def kernel(x, w): return reference(x, w).tolist()"),
    "nothing": (Verdict.wrong_type, "def kernel(x, w): reference(x, w)"),
    "a subclass": (
        Verdict.wrong_type,
        "class Lazy(torch.Tensor): pass\ndef kernel(x, w): return reference(x, w).as_subclass(Lazy)",
    ),
    "a meta tensor": (Verdict.wrong_type, "def kernel(x, w): return torch.empty_like(x, device='meta')"),
    "another shape": (Verdict.wrong_shape, "def kernel(x, w): return reference(x, w)[:-1]"),
    "one shape only": (
        Verdict.wrong_numbers,
        "def kernel(x, w): return reference(x, w) if x.shape[1] == 512 else torch.ones_like(x)",
    ),
    "half written": (
        Verdict.incomplete_output,
        "def kernel(x, w):\n    out = torch.empty_like(x)\n    out[:-1] = reference(x, w)[:-1]\n    return out",
    ),
    "half written by malloc": (
        Verdict.incomplete_output,
        """
import numpy
def kernel(x, w):
    out = numpy.empty(x.shape, dtype=numpy.float32)
    out[:-1] = reference(x, w)[:-1].numpy()
    return torch.from_numpy(out)
""",
    ),
    "mutates": (
        Verdict.input_mutated,
        "def kernel(x, w):\n    out = reference(x, w)\n    x.zero_()\n    return out",
    ),
    "cached by address": (
        Verdict.stale_output,
        "seen = {}\ndef kernel(x, w):\n    if x.data_ptr() not in seen: seen[x.data_ptr()] = reference(x, w)\n"
        "    return seen[x.data_ptr()].clone()",
    ),
    "cached by id, same tensor": (
        Verdict.stale_output,
        "seen = {}\ndef kernel(x, w): return seen.setdefault(id(x), reference(x, w))",
    ),
    "static buffer": (
        Verdict.stale_output,
        "kept = {}\ndef kernel(x, w):\n    out = kept.setdefault(x.shape, torch.empty_like(x))\n"
        "    out.copy_(reference(x, w))\n    return out",
    ),
    "remembers the first addresses": (
        Verdict.stale_output,
        "kept = {}\ndef kernel(x, w): return reference(*kept.setdefault(x.shape, (x, w)))",
    ),
    "computes after it returned": (
        Verdict.hidden_work,
        """
import threading, time
def kernel(x, w):
    out = torch.zeros_like(x)
    def later():
        time.sleep(0.01)
        out.copy_(reference(x, w))
    threading.Thread(target=later).start()
    return out
""",
    ),
    "random": (
        Verdict.not_deterministic,
        "calls = []\ndef kernel(x, w):\n    calls.append(1)\n"
        "    return reference(x, w) + (0.1 if len(calls) == 4 else 0)",
    ),
    "patches the clock": (
        Verdict.tampering,
        "import time\ntime.perf_counter = lambda: 0.0\ndef kernel(x, w): return reference(x, w)",
    ),
    "patches the comparison": (
        Verdict.tampering,
        "torch.allclose = lambda *a, **k: True\ndef kernel(x, w): return reference(x, w)",
    ),
    "patches a method": (
        Verdict.tampering,
        "torch.Tensor.numel = lambda self: 0\ndef kernel(x, w): return reference(x, w)",
    ),
    "changes the default dtype": (
        Verdict.tampering,
        "def kernel(x, w):\n    torch.set_default_dtype(torch.float64)\n    return reference(x, w)",
    ),
    "changes the code of the harness": (
        Verdict.tampering,
        "import sys\nvalues = sys.modules['kernelswarm.hardware.harness.tensors.values']\n"
        "values.dtype_name.__code__ = (lambda dtype: 'float32').__code__\ndef kernel(x, w): return reference(x, w)",
    ),
    "silences the check for changes": (
        Verdict.tampering,
        "import sys\nintegrity = sys.modules['kernelswarm.hardware.harness.calls.integrity']\n"
        "integrity.Snapshot.differences.__code__ = (lambda self: ()).__code__\n"
        "def kernel(x, w): return reference(x, w)",
    ),
    "flushes denormals": (
        Verdict.tampering,
        "def kernel(x, w):\n    torch.set_flush_denormal(True)\n    return reference(x, w)",
    ),
    "raises": (Verdict.runtime_error, "def kernel(x, w): raise ValueError('no')"),
    "exits by exception": (Verdict.runtime_error, "def kernel(x, w): raise SystemExit(0)"),
    "raises what has no text": (
        Verdict.runtime_error,
        "class Odd(Exception):\n    def __str__(self): raise self\ndef kernel(x, w): raise Odd",
    ),
    "raises what is no text": (Verdict.runtime_error, "def kernel(x, w): raise ValueError('\\udcff')"),
    "a sparse tensor": (Verdict.wrong_type, "def kernel(x, w): return reference(x, w).to_sparse()"),
    "a number beyond all messages": (Verdict.wrong_type, "def kernel(x, w): return 10**1000"),
    "does not import": (Verdict.load_error, "import nowhere"),
    "lacks kernel": (Verdict.load_error, "def kernal(x, w): return x"),
    "ends its process": (Verdict.crash, "import os\ndef kernel(x, w): os._exit(0)"),
    "ends its process on import": (Verdict.crash, "import os\nos._exit(0)"),
    "segmentation fault": (Verdict.crash, "import ctypes\ndef kernel(x, w): ctypes.string_at(0)"),
    "aborts": (Verdict.crash, "import os\ndef kernel(x, w): os.abort()"),
    "a hundred gigabytes": (Verdict.out_of_memory, "def kernel(x, w): return torch.ones(25 * 2**30)"),
    "a hundred gigabytes of bytes": (Verdict.out_of_memory, "def kernel(x, w): return bytearray(100 * 2**30)"),
    "starts processes": (
        Verdict.runtime_error,
        "import os\ndef kernel(x, w):\n    while True: os.fork()",
    ),
    "runs a program": (
        Verdict.runtime_error,
        "import subprocess\ndef kernel(x, w): return subprocess.run(['true'])",
    ),
    "kills its parent": (
        Verdict.runtime_error,
        "import os\ndef kernel(x, w): os.kill(os.getppid(), 9)",
    ),
    "uses the network": (
        Verdict.runtime_error,
        "import socket\ndef kernel(x, w): socket.create_connection(('127.0.0.1', 9))",
    ),
}


async def test_what_raises_names_the_innermost_line_of_the_candidate(verify: Verify) -> None:
    source = "import torch\ndef inner(x):\n    return x.nope\ndef kernel(x, w):\n    return inner(x)\n"
    report = await verify(source)
    assert report.evidence is not None
    assert report.evidence.message.endswith("has no attribute 'nope' (line 3)")


@pytest.mark.parametrize("name", WRONG)
async def test_is_refused_by_name(verify: Verify, name: str) -> None:
    verdict, body = WRONG[name]

    report = await verify(f"import torch\ndef reference(x, w): return {RIGHT}\n{body}\n")

    assert report.verdict is verdict, report.evidence
    assert report.evidence is not None and report.evidence.message
    assert encode(report)


async def test_wrong_numbers_point_at_the_element(verify: Verify) -> None:
    report = await verify(
        f"import torch\ndef kernel(x, w):\n    out = {RIGHT}\n    out[3, 5] += x.shape[0] == 64\n    return out\n"
    )

    assert report.evidence is not None
    assert report.evidence.element == (3, 5)
    assert float(report.evidence.got) == pytest.approx(float(report.evidence.expected) + 1, abs=1e-5)
    assert report.evidence.shape == "main"
    assert report.evidence.seed == report.cases[-1].seed


async def test_a_crash_names_its_signal(verify: Verify) -> None:
    report = await verify("import ctypes\ndef kernel(x, w): ctypes.string_at(0)\n")

    assert report.evidence is not None
    assert "SIGSEGV" in report.evidence.message


async def test_a_hang_costs_its_time_limit_and_no_more(
    device: Device, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(device, "_pool", replace(device._pool, candidate_seconds=2.0))
        hanging = await verify("def kernel(x, w):\n    while True: pass\n")
    after = await verify(f"import torch\ndef kernel(x, w): return {RIGHT}\n")

    assert hanging.verdict is Verdict.timeout
    assert after.verdict is Verdict.correct


async def test_output_is_kept_only_at_its_end(verify: Verify) -> None:
    report = await verify("def kernel(x, w):\n    print('a' * 10**6 + 'the end')\n    raise ValueError\n")

    assert report.verdict is Verdict.runtime_error
    assert report.evidence is not None
    assert len(report.evidence.log) < 20_000


async def test_no_secret_is_visible(
    device: Device, problem: Problem, monkeypatch: pytest.MonkeyPatch, verify: Verify
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    source = f"""
import os, pathlib, torch
def kernel(x, w):
    seen = dict(os.environ)
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            seen[str(path)] = path.read_text()
        except OSError:
            pass
    assert not any("ANTHROPIC" in key + value for key, value in seen.items()), "visible"
    return {RIGHT}
"""
    report = await verify(source)

    assert report.verdict is Verdict.correct, report.evidence


async def test_files_outside_its_scratch_folder_cannot_be_written(device: Device, verify: Verify) -> None:
    source = f"""
import os, torch
def kernel(x, w):
    open("mine", "w").write("fine")
    for folder in (os.environ["KERNELSWARM_ARTIFACTS"], os.path.dirname(torch.__file__), "/tmp", "/dev/shm"):
        try:
            open(os.path.join(folder, "kernelswarm-test-leak"), "w")
        except OSError:
            continue
        raise RuntimeError(folder + " can be written")
    return {RIGHT}
"""
    report = await verify(source)
    if "mountns" not in report.isolation:
        pytest.skip("this kernel permits no mount namespaces")

    assert report.verdict is Verdict.correct, report.evidence


async def test_kernels_that_are_compiled_at_their_first_call_have_a_cache_of_their_own(verify: Verify) -> None:
    """Plain ``@triton.jit``, without a launch table: Triton writes what it compiles."""
    source = f"""
import os, pathlib, torch
def kernel(x, w):
    entry = pathlib.Path(os.environ["TRITON_CACHE_DIR"], "key", "kernel.cubin")
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_bytes(b"cubin")
    assert entry.is_relative_to(pathlib.Path.cwd()), entry
    return {RIGHT}
"""
    report = await verify(source)

    assert report.verdict is Verdict.correct, report.evidence


CHEATS_WHEN_TIMED = f"""
import torch
calls = [0]
def kernel(x, w):
    calls[0] += 1
    return torch.empty_like(x) if calls[0] > 40 else {RIGHT}
"""


async def test_what_was_timed_is_checked(device: Device, problem: Problem, facts: ProblemFacts) -> None:
    report, _ = await device.compile(CHEATS_WHEN_TIMED, "cpp")
    assert (await device.verify(problem, CHEATS_WHEN_TIMED, report)).verdict is Verdict.correct

    profiled = await device.profile(problem, facts, CHEATS_WHEN_TIMED, report)

    assert profiled.verdict in (Verdict.wrong_numbers, Verdict.stale_output)
    assert profiled.timing is None


COUNTED = f"""
import sys, torch
calls, kept = [0], {{}}
def right(x, w): return {RIGHT}
def fast(x, w, key):
    if key not in kept: kept[key] = right(x, w)
    return kept[key]
def kernel(x, w):
    calls[0] += 1
    return right(x, w) if calls[0] <= 40 else later(x, w)
"""
REMEMBERS = {
    "by address": "def later(x, w): return fast(x, w, x.data_ptr())",
    "by a few elements": "def later(x, w): return fast(x, w, (x[0, 0].item(), x[-1, -1].item()))",
    "by a sum": "def later(x, w): return fast(x, w, x.sum().item())",
    "all calls of a batch but the last": """
def later(x, w):
    frame = sys._getframe(1)
    while frame is not None and "sets" not in frame.f_locals: frame = frame.f_back
    if frame is not None and kept:
        if kept["frame"] is not frame: kept.update(frame=frame, left=len(frame.f_locals["sets"]))
        kept["left"] -= 1
        if kept["left"] > 0: return kept["last"]
    kept.setdefault("frame", None)
    kept["last"] = right(x, w)
    return kept["last"]
""",
}
NEVER_HIT = ("by a few elements", "by a sum")
"""No input set comes twice, so these only cost time."""


@pytest.mark.parametrize("how", REMEMBERS)
async def test_answers_remembered_while_timed_are_no_speed(
    device: Device, problem: Problem, facts: ProblemFacts, how: str
) -> None:
    source = COUNTED + REMEMBERS[how]
    report, _ = await device.compile(source, "cpp")
    assert (await device.verify(problem, source, report)).verdict is Verdict.correct

    profiled = await device.profile(problem, facts, source, report)

    if how in NEVER_HIT:
        assert profiled.timing is not None and profiled.timing.speedup["eager"].low <= 1.0
    else:
        assert profiled.verdict in (Verdict.stale_output, Verdict.wrong_numbers), profiled.evidence
        assert profiled.timing is None


SHOWS_A_THIRD = """
import sys, time
module = sys.modules["kernelswarm.hardware.harness.calls.stopwatch"]
def run(self, call, command, clock=None, arrive=None, taken=None):
    self._prepare(call, command, arrive)
    batch = self._next(command.calls)
    began = time.perf_counter_ns()
    for inputs in batch: output = call(*inputs)
    whole = time.perf_counter_ns() - began
    return Timed(ns=whole // 3, whole_ns=whole, kept=(self._turn - 1) % len(self.copies)), output
"""


async def test_a_stopwatch_that_shows_a_third_is_found_out(
    device: Device, problem: Problem, facts: ProblemFacts
) -> None:
    source = f"{SHOWS_A_THIRD}\nmodule.Stopwatch.run.__code__ = run.__code__\nimport torch\n"
    source += f"def kernel(x, w): return {RIGHT}\n"
    report, _ = await device.compile(source, "cpp")

    profiled = await device.profile(problem, facts, source, report)

    assert profiled.verdict is Verdict.tampering, profiled.evidence


LYING_CLOCK = f"""
import sys, torch
stopwatch = sys.modules["kernelswarm.hardware.harness.calls.stopwatch"]
stopwatch.Stopwatch.run.__defaults__ = (lambda: 0, lambda: None, stopwatch.as_it_is)
def kernel(x, w): return {RIGHT}
"""


async def test_a_lying_clock_is_found_out(device: Device, problem: Problem, facts: ProblemFacts) -> None:
    report, _ = await device.compile(LYING_CLOCK, "cpp")

    profiled = await device.profile(problem, facts, LYING_CLOCK, report)

    assert profiled.verdict is Verdict.tampering, profiled.evidence
