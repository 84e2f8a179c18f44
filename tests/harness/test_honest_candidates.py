"""Right and honest kernels are accepted, and timed against the baselines."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.inputs.held_out import HELD_OUT, LARGER
from kernelswarm.hardware.harness.inputs.variants import VARIANTS
from kernelswarm.hardware.languages.cpp import LOADER
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Problem, ProblemFacts, Verdict, encode

pytestmark = pytest.mark.asyncio(loop_scope="session")

CPP = r"""
#include <cmath>
extern "C" void rmsnorm(const float* x, const float* w, float* out, long rows, long cols) {
    #pragma omp parallel for schedule(static)
    for (long r = 0; r < rows; r++) {
        const float* in = x + r * cols;
        float sum = 0;
        #pragma omp simd reduction(+:sum)
        for (long c = 0; c < cols; c++) sum += in[c] * in[c];
        const float scale = 1.0f / std::sqrt(sum / cols + 1e-6f);
        #pragma omp simd
        for (long c = 0; c < cols; c++) out[r * cols + c] = in[c] * scale * w[c];
    }
}
"""

CPP_KERNEL = (
    f"import torch\nCPP_SOURCE = r'''{CPP}'''\nCPP_FLAGS = []\n"
    + LOADER
    + """
_library = _load()

def kernel(x, w):
    x, w = x.contiguous(), w.contiguous()
    out = torch.empty_like(x)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, out)]
    _library.rmsnorm(*pointers, ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
    return out
"""
)

POSITIVE = """
import torch

shapes = {"main": dict(count=1 << 20), "odd": dict(count=333)}

def inputs(generator, count):
    # A share of its own for every draw: the answer's size differs from one to the next.
    return [torch.randn(count, generator=generator) + torch.rand(1, generator=generator)]

def reference(x):
    return x[x > 0]
"""

POSITIVE_KERNEL = (
    r"""
import torch
CPP_SOURCE = r'''
extern "C" long count(const float* x, long n) {
    long found = 0;
    for (long i = 0; i < n; i++) found += x[i] > 0;
    return found;
}
extern "C" void take(const float* x, long n, float* out) {
    for (long i = 0; i < n; i++) if (x[i] > 0) *out++ = x[i];
}
'''
CPP_FLAGS = []
"""
    + LOADER
    + """
_library = _load()
_library.count.restype = ctypes.c_long

def kernel(x):
    x = x.contiguous()
    pointer, size = ctypes.c_void_p(x.data_ptr()), ctypes.c_long(x.numel())
    out = torch.empty(_library.count(pointer, size))
    _library.take(pointer, size, ctypes.c_void_p(out.data_ptr()))
    return out
"""
)

SLOW_KERNEL = """
import torch

def kernel(x, w):
    for _ in range(20):
        out = x.double() * torch.rsqrt(x.double().pow(2).mean(-1, keepdim=True) + 1e-6) * w
    return out.float()
"""

KEEPS_SCRATCH = """
import torch
scratch = {}

def kernel(x, w):
    row = scratch.setdefault(x.shape, torch.empty(x.shape[0], 1))
    torch.mean(x * x, dim=-1, keepdim=True, out=row)
    return x * torch.rsqrt(row + 1e-6) * w
"""

COMPUTES_IN_A_THREAD = """
import threading

def kernel(x, w):
    result = []
    thread = threading.Thread(target=lambda: result.append(x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w))
    thread.start()
    thread.join()
    return result[0]
"""


@pytest.mark.parametrize("source", [CPP_KERNEL, SLOW_KERNEL, KEEPS_SCRATCH, COMPUTES_IN_A_THREAD])
async def test_is_correct_on_every_case(device: Device, problem: Problem, source: str) -> None:
    report, _ = await device.compile(source, "cpp")

    verified = await device.verify(problem, source, report)

    assert verified.verdict is Verdict.correct, verified.evidence
    own = [case for case in verified.cases if case.inputs == "normal"]
    assert [case.shape for case in own] == ["main"] * 3 + ["ragged"] * 2
    assert {case.inputs for case in verified.cases} == {"normal", *VARIANTS, HELD_OUT, LARGER}
    assert len({case.seed for case in verified.cases}) == len(verified.cases)
    assert all(case.error <= case.bound for case in verified.cases)
    assert verified.isolation.startswith("process+")


async def test_a_native_kernel_finds_its_artifact_instead_of_compiling(device: Device, problem: Problem) -> None:
    report, artifacts = await device.compile(CPP_KERNEL, "cpp")
    (artifact,) = report.artifacts
    assert device.has(artifact)
    assert set(artifacts) == {artifact.sha256}

    # A candidate cannot start a compiler, so it can only be correct if the artifact was where it looked.
    assert (await device.verify(problem, CPP_KERNEL, report)).verdict is Verdict.correct


async def test_is_timed_against_the_baseline_in_the_same_rounds(
    device: Device, problem: Problem, facts: ProblemFacts
) -> None:
    report, _ = await device.compile(CPP_KERNEL, "cpp")

    profiled = await device.profile(problem, facts, CPP_KERNEL, report)

    assert profiled.verdict is Verdict.correct, profiled.evidence
    assert profiled.timing is not None and profiled.roofline is not None
    rounds = {series.name: len(series.samples_ns) for series in profiled.timing.series}
    assert set(rounds) == {"eager", "candidate"}
    assert rounds["eager"] == rounds["candidate"] >= 5
    assert profiled.timing.best == "eager"
    interval = profiled.timing.speedup["eager"]
    assert interval.low <= interval.median <= interval.high
    assert profiled.counters is not None and "page_faults" in profiled.counters.values
    assert encode(profiled)


async def test_a_slow_kernel_is_no_win(device: Device, problem: Problem, facts: ProblemFacts) -> None:
    report, _ = await device.compile(SLOW_KERNEL, "cpp")

    profiled = await device.profile(problem, facts, SLOW_KERNEL, report)

    assert profiled.timing is not None
    # Forty times the work: no disturbance makes it look fast.
    assert not profiled.timing.speedup["eager"].is_win


async def test_a_candidate_that_does_not_compile_is_not_run(device: Device, problem: Problem) -> None:
    source = "CPP_SOURCE = 'int main( {'\nCPP_FLAGS = []\n"
    report, _ = await device.compile(source, "cpp")

    verified = await device.verify(problem, source, report)

    assert verified.verdict is Verdict.compile_error
    assert verified.evidence is not None and verified.evidence.message


async def test_outputs_of_another_size_on_data_not_seen_before(device: Device, tmp_path: Path) -> None:
    (tmp_path / "positive.py").write_text(POSITIVE)
    positive = load_problem(tmp_path / "positive.py")
    facts = await device.validate_problem(positive)
    report, _ = await device.compile(POSITIVE_KERNEL, "cpp")

    assert (await device.verify(positive, POSITIVE_KERNEL, report)).verdict is Verdict.correct
    profiled = await device.profile(positive, facts, POSITIVE_KERNEL, report)

    # Memory of a size that no call had before is faulted in: twice the time, and nothing that was remembered.
    assert profiled.verdict is Verdict.correct, profiled.evidence


async def test_a_candidate_may_call_torch_compile_before_any_baseline_has(
    device: Device, tmp_path: Path, problem: Problem
) -> None:
    """It could not even be loaded: torch makes the folder of its caches where there is none."""
    source = """
import torch

@torch.compile(backend="aot_eager", dynamic=True)
def kernel(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
"""
    async with Device(device._pool, device._hardware, tmp_path, baselines=("eager",)) as fresh:
        report, _ = await fresh.compile(source, "cpp")
        verified = await fresh.verify(problem, source, report)
    assert verified.verdict is Verdict.correct, verified.evidence
