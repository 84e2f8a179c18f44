"""What is too large to be judged as often as the rest is judged on less, and says so."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from waiting import LIMIT_S

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness import judging
from kernelswarm.hardware.harness.baseline_process import BaselineProcess
from kernelswarm.hardware.harness.inputs import sizes
from kernelswarm.hardware.harness.inputs import variants as input_variants
from kernelswarm.hardware.harness.inputs.held_out import HELD_OUT
from kernelswarm.hardware.harness.inputs.variants import ALL, CENTRED, FAR, FEW, SPREAD, STRIDED
from kernelswarm.hardware.harness.launcher import Launcher
from kernelswarm.hardware.harness.reference_process import ReferenceProcess
from kernelswarm.hardware.harness.tensors import right_answer
from kernelswarm.hardware.harness.tensors.bounds import Tolerance
from kernelswarm.hardware.harness.tensors.compare import Target
from kernelswarm.hardware.harness.validation_process import memory_needed, memory_needed_on_device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import InputFact, Problem, ProblemFacts, ShapeFacts, Verdict, VerifyReport, Work

POSITIVE = """
import torch
shapes = {"main": dict(rows=70, cols=15001)}
def inputs(generator, rows, cols): return [torch.rand(rows, cols, generator=generator)]
def reference(x): return torch.relu(x)
"""
HONEST = "import torch\ndef kernel(x): return torch.clamp(x, min=0)"


def _problem(folder: Path, source: str) -> Problem:
    path = folder / "mine.py"
    path.write_text(source)
    return load_problem(path)


@pytest.mark.asyncio(loop_scope="session")
async def test_large_inputs_are_used_twice_and_changed_once(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "LARGE_BYTES", 1)
    monkeypatch.setattr(input_variants, "MOST_TIMED_BYTES", 1)
    problem = _problem(tmp_path, POSITIVE)

    async def judge(kernel: str) -> tuple[Verdict, list[str], str]:
        report, _ = await device.compile(kernel, "cpp")
        verified = await device.verify(problem, kernel, report)
        evidence = verified.evidence
        return verified.verdict, [case.inputs for case in verified.cases], evidence.message if evidence else ""

    honest = await judge(HONEST)
    idle = await judge("import torch\ndef kernel(x): return x.clone()")
    lossy = await judge("import torch\ndef kernel(x): return torch.relu(x.half().float())")
    await device.forget(problem)

    blocks = "|".join((*FAR, *FEW))
    assert honest[:2] == (Verdict.correct, ["normal", "normal", blocks, ALL, SPREAD, HELD_OUT])
    assert idle[:2] == (Verdict.wrong_numbers, ["normal", "normal", blocks, ALL]), (
        "it is wrong on what was made of them alone"
    )
    assert lossy[0] is Verdict.lower_precision and "float16" in lossy[2]


@pytest.mark.asyncio(loop_scope="session")
async def test_large_candidates_are_judged_one_at_a_time(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all cases made before the first: memory holds neither two candidates nor one beside a case in float64."""
    monkeypatch.setattr(sizes, "LARGE_BYTES", 1)
    problem = _problem(tmp_path, POSITIVE)
    report, _ = await device.compile(HONEST, "cpp")
    seen: list[tuple[int, int]] = []
    inside = 0
    verify = judging.verify

    async def watched(launcher: Launcher, host: ReferenceProcess, *rest: Any) -> VerifyReport:
        nonlocal inside
        inside += 1
        before = len(host._cases)
        try:
            return await verify(launcher, host, *rest)
        finally:
            seen.append((inside, len(host._cases) - before))
            inside -= 1

    monkeypatch.setattr(judging, "verify", watched)
    verified = await asyncio.gather(*(device.verify(problem, HONEST, report) for _ in range(2)))
    await device.forget(problem)

    assert [result.verdict for result in verified] == [Verdict.correct] * 2
    assert seen == [(1, 0), (1, 0)]


@pytest.mark.asyncio(loop_scope="session")
async def test_large_candidates_of_other_problems_are_judged_meanwhile(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each problem has reserved memory of its own."""
    monkeypatch.setattr(sizes, "LARGE_BYTES", 1)
    problems = [_problem(tmp_path, POSITIVE.replace("15001", columns)) for columns in ("15001", "15002")]
    report, _ = await device.compile(HONEST, "cpp")
    together, verify = asyncio.Barrier(len(problems)), judging.verify

    async def watched(*arguments: Any) -> VerifyReport:
        async with asyncio.timeout(LIMIT_S):
            await together.wait()
        return await verify(*arguments)

    monkeypatch.setattr(judging, "verify", watched)
    verified = await asyncio.gather(*(device.verify(problem, HONEST, report) for problem in problems))
    for problem in problems:
        await device.forget(problem)

    assert [result.verdict for result in verified] == [Verdict.correct] * 2


@pytest.mark.asyncio(loop_scope="session")
async def test_baselines_of_large_problems_make_room_between_candidates(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "LARGE_BYTES", 1)
    problem = _problem(tmp_path, POSITIVE)
    report, _ = await device.compile(HONEST, "cpp")
    facts = await device.validate_problem(problem)
    alive: list[bool] = []
    make_room = BaselineProcess.make_room

    async def watched(host: BaselineProcess) -> None:
        await make_room(host)
        assert host._worker is not None
        alive.append(host._worker.alive)

    monkeypatch.setattr(BaselineProcess, "make_room", watched)
    await device.verify(problem, HONEST, report)
    timed = [await device.profile(problem, facts, HONEST, report) for _ in range(2)]
    await device.forget(problem)

    assert [result.verdict for result in timed] == [Verdict.correct] * 2
    assert alive == [True] * 3, "once they were compiled, and after each candidate"


@pytest.mark.asyncio(loop_scope="session")
async def test_where_negative_numbers_mean_nothing_others_are_taken(device: Device, tmp_path: Path) -> None:
    source = POSITIVE.replace("torch.relu(x)", "torch.relu(x) + torch.log(x + 0.25)")
    source = source.replace("reference(x): return", "reference(x): return x if x.max() <= 1 and x.min() >= 0 else")
    problem = _problem(tmp_path, source)

    facts = await device.validate_problem(problem)

    used = {variant.name: variant.refused for variant in facts.input_kinds}
    assert used[CENTRED] and not used["dominated"] and not used[STRIDED] and not used[HELD_OUT]


def _facts(size: int) -> ProblemFacts:
    fact = InputFact(name="x", kind="tensor", shape=(size,), dtype="float32")
    main = ShapeFacts(name="main", inputs=(fact,), outputs=(fact,))
    return ProblemFacts(
        signature=("x",),
        shapes=(main,),
        graph=None,
        work=Work(read_bytes=1, write_bytes=1, flops=1),
        dtype="float32",
        float64_oracle=True,
    )


def test_six_gigabytes_fit_on_a_large_accelerator() -> None:
    device, host = memory_needed_on_device(_facts(4096 * 393216))

    assert device < 139 << 30 and host < 100 << 30
    assert memory_needed(_facts(4096 * 393216))[1] > 139 << 30, "a processor computes float64 in the same memory"


def test_what_is_left_out_is_said() -> None:
    assert sizes.left_out(1000, 1000) == ""
    assert "12.9 GB: 2 sets are used instead of 3" in sizes.left_out(6442450944, 6442450944)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_oracle_kept_in_float32_says_the_same(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    exact = torch.randn(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).exp()
    native = exact.to(dtype)
    near, far = native * (1 + 2e-7), native * (1 + 0.1)
    unrounded = Target(native, exact, Tolerance())
    monkeypatch.setattr(right_answer, "LARGE", 100)
    monkeypatch.setattr(right_answer, "_WEIGHED", 100)

    rounded = Target(native, exact, Tolerance())

    assert rounded._oracle.dtype == torch.float32 and unrounded._oracle.dtype == torch.float64
    assert (rounded.bound, rounded.reference_error) == pytest.approx((unrounded.bound, unrounded.reference_error))
    for answer in (near.to(dtype), far.to(dtype)):
        assert rounded.accepts(answer) is unrounded.accepts(answer)
        errors = [target.error(iter([answer]))[0] for target in (rounded, unrounded)]
        assert errors[0] == pytest.approx(errors[1], abs=2.0**-24)


def test_a_narrow_tolerance_keeps_the_oracle_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_answer, "LARGE", 100)
    exact = torch.rand(500, dtype=torch.float64)

    assert Target(exact.float(), exact, Tolerance(relative=1e-7))._oracle.dtype == torch.float64
