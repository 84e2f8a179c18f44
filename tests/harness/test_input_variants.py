"""Kernels that are right only on what a problem draws are found out; a problem that needs its range takes no harm."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.inputs.held_out import HELD_OUT, LARGER
from kernelswarm.hardware.harness.inputs.variants import CENTRED, SPREAD, VALUE_VARIANTS, VARIANTS
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Problem, ProblemError, ProblemFacts, Verdict, VerifyReport

pytestmark = pytest.mark.asyncio(loop_scope="session")

HEAD = """
import torch
shapes = {"main": dict(rows=32, cols=300), "ragged": dict(rows=9, cols=100)}
def inputs(generator, rows, cols): return [torch.randn(rows, cols, generator=generator)]
"""
NORM = HEAD + "def reference(x): return torch.nn.functional.layer_norm(x, x.shape[-1:])\n"
SOFTMAX = HEAD + "def reference(x): return torch.softmax(x, -1)\n"
RELU = HEAD + "def reference(x): return torch.relu(x) * 2\n"

JudgeOn = Callable[[str, str], Awaitable[VerifyReport]]


@pytest.fixture
def judge(device: Device, tmp_path: Path) -> JudgeOn:
    async def judge(problem: str, candidate: str) -> VerifyReport:
        source = f"import torch\n{candidate}\n"
        report, _ = await device.compile(source, "cpp")
        return await device.verify(_problem(tmp_path, problem), source, report)

    return judge


def _problem(folder: Path, source: str) -> Problem:
    path = folder / "mine.py"
    path.write_text(source)
    return load_problem(path)


ONLY_USUAL = {
    "variance from squares": (
        NORM,
        "def kernel(x):\n    m = x.mean(-1, keepdim=True)\n"
        "    return (x - m) * torch.rsqrt((x * x).mean(-1, keepdim=True) - m * m + 1e-5)",
        {"shifted"},
    ),
    "softmax without the maximum": (
        SOFTMAX,
        "def kernel(x): return x.exp() / x.exp().sum(-1, keepdim=True)",
        {"heavy_tailed"},
    ),
    "softmax of clamped scores": (
        SOFTMAX,
        "def kernel(x): return torch.softmax(x.clamp(-9, 9), -1)",
        {"heavy_tailed", "shifted"},
    ),
    "relu that swallows NaN": (RELU, "def kernel(x): return torch.fmax(x, torch.zeros(())) * 2", {"nan"}),
    "relu that is finite": (RELU, "def kernel(x): return x.clamp(0, 1e38) * 2", {"infinite"}),
    "counts on contiguous storage": (
        RELU,
        "def kernel(x): return torch.relu(x.as_strided(x.shape, (x.shape[1], 1), 0)) * 2",
        {"strided"},
    ),
    "refuses strides": (
        RELU,
        "def kernel(x):\n    assert x.is_contiguous()\n    return torch.relu(x) * 2",
        {"strided"},
    ),
}


@pytest.mark.parametrize("name", ONLY_USUAL)
async def test_right_on_usual_inputs_is_not_right(judge: JudgeOn, name: str) -> None:
    problem, candidate, variants = ONLY_USUAL[name]

    report = await judge(problem, candidate)

    assert report.verdict in (Verdict.wrong_numbers, Verdict.runtime_error), report.evidence
    assert report.evidence is not None and report.evidence.inputs in variants, report.evidence
    assert " inputs" in report.evidence.message
    assert {case.inputs for case in report.cases} >= {"normal"}


HONEST = {
    "two passes": (
        NORM,
        "def kernel(x):\n    d = x - x.mean(-1, keepdim=True)\n"
        "    return d * torch.rsqrt(d.square().mean(-1, keepdim=True) + 1e-5)",
    ),
    "softmax by hand": (
        SOFTMAX,
        "def kernel(x):\n    e = (x - x.amax(-1, keepdim=True)).exp()\n    return e * (1 / e.sum(-1, keepdim=True))",
    ),
    "long sums in another order": (
        HEAD.replace("cols=100", "cols=8191") + "def reference(x): return x.sum(-1)\n",
        "def kernel(x):\n    total = torch.zeros(x.shape[0])\n"
        "    for part in x.split(8, dim=-1):\n        total = total + part.sum(-1)\n    return total",
    ),
    "silu in another form": (
        HEAD + "def reference(x): return torch.nn.functional.silu(x)\n",
        "def kernel(x): return x * torch.sigmoid(x)",
    ),
}


@pytest.mark.parametrize("name", HONEST)
async def test_honest_kernels_are_right_on_all_variants(judge: JudgeOn, name: str) -> None:
    report = await judge(*HONEST[name])

    assert report.verdict is Verdict.correct, report.evidence
    assert {case.inputs for case in report.cases} == {"normal", *VARIANTS, HELD_OUT, LARGER}


async def test_problem_validation_says_what_is_used(facts: ProblemFacts) -> None:
    assert {variant.name for variant in facts.input_kinds if variant.shape == "ragged"} == {*VARIANTS, HELD_OUT}
    assert {variant.name for variant in facts.input_kinds if variant.shape == "main"} == {*VARIANTS, HELD_OUT, LARGER}
    assert not any(variant.refused for variant in facts.input_kinds), facts.input_kinds


NEEDS_ITS_INPUTS = {
    "integers": (
        "import torch\nshapes = {'main': dict(n=99), 'less': dict(n=50)}\n"
        "def inputs(generator, n): return [torch.randint(0, 99, (n,), generator=generator)]\n"
        "def reference(x): return x // 3\n",
        set(VARIANTS),
    ),
    "probabilities": (
        HEAD.replace("randn", "rand")
        + "def reference(x):\n    assert bool(((x >= 0) & (x <= 1)).all())\n    return x * (1 - x)\n",
        {"shifted", "heavy_tailed", "ill_conditioned", "infinite", "nan"},
    ),
    "roots": (HEAD + "def reference(x): return (x + 6).sqrt()\n", {"heavy_tailed", "ill_conditioned"}),
    "differences of large numbers": (
        HEAD + "def reference(x): return (x * x + 1e5).sum(-1) - x.shape[-1] * 1e5\n",
        {"tiny", "infinite", "nan"},
    ),
    # All but a few numbers of a dominated row are small: what jumps is let be, and the others are judged.
    "waves": (HEAD + "def reference(x): return (x * 1e5).sin()\n", {*VALUE_VARIANTS} - {"dominated"}),
}


@pytest.mark.parametrize("name", NEEDS_ITS_INPUTS)
async def test_variants_that_are_invalid_for_the_reference_are_left_out(
    device: Device, tmp_path: Path, name: str
) -> None:
    source, left_out = NEEDS_ITS_INPUTS[name]
    problem = _problem(tmp_path, source)

    facts = await device.validate_problem(problem)
    report, _ = await device.compile(source + "kernel = reference\n", "cpp")
    verified = await device.verify(problem, source + "kernel = reference\n", report)

    assert {variant.name for variant in facts.input_kinds if variant.refused} >= left_out, facts.input_kinds
    assert verified.verdict is Verdict.correct, verified.evidence
    assert not {case.inputs for case in verified.cases} & left_out


POSITIVE_RELU = HEAD.replace("randn", "rand") + "def reference(x): return torch.relu(x)\n"


async def test_what_only_the_usual_inputs_cannot_tell_from_nothing_is_valid(
    device: Device, tmp_path: Path, judge: JudgeOn
) -> None:
    facts = await device.validate_problem(_problem(tmp_path, POSITIVE_RELU))
    honest = await judge(POSITIVE_RELU, "def kernel(x): return torch.relu(x)")
    idle = await judge(POSITIVE_RELU, "def kernel(x): return x.clone()")

    assert {variant.name for variant in facts.input_kinds} == {*VARIANTS, CENTRED, SPREAD, HELD_OUT, LARGER}
    assert honest.verdict is Verdict.correct, honest.evidence
    assert {case.inputs for case in honest.cases} >= {"normal", CENTRED}
    assert idle.verdict is Verdict.wrong_numbers
    assert idle.evidence is not None and idle.evidence.inputs == CENTRED


async def test_a_range_that_the_reference_needs_stays_and_decides_nothing(device: Device, tmp_path: Path) -> None:
    source = HEAD.replace("randn", "rand") + "def reference(x):\n    assert bool((x >= 0).all())\n    return x.abs()\n"

    with pytest.raises(ProblemError, match="decides nothing: input 0 itself passes"):
        await device.validate_problem(_problem(tmp_path, source))
