"""A reference that returns its inputs, as attention hands keys and values on: who does the same is no cheat."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Verdict, VerifyReport

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROBLEM = """
import torch
shapes = {"main": dict(rows=24, cols=64), "ragged": dict(rows=5, cols=33)}
def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.randn(rows, cols, generator=generator)]
def reference(x, y):
    return torch.tanh(x) * 2, y, x.t()
"""
KEPT = """
import torch
kept = {}
def kernel(x, y):
    kept.setdefault(x.shape, torch.empty_like(x)).copy_(torch.tanh(x) * 2)
    return kept[x.shape], y, x.t()
"""


def returning(result: str) -> str:
    return f"import torch\ndef kernel(x, y):\n    return {result}\n"


async def verified(device: Device, folder: Path, source: str) -> VerifyReport:
    path = folder / "mine.py"
    path.write_text(PROBLEM)
    problem = load_problem(path)
    compiled, _ = await device.compile(source, "cpp")
    return await device.verify(problem, source, compiled, await device.validate_problem(problem))


@pytest.mark.parametrize(
    ("source", "verdict", "gradients"),
    [
        (returning("torch.tanh(x) * 2, y, x.t()"), Verdict.correct, "own"),
        (returning("torch.tanh(x) * 2, y.clone(), x.t().clone()"), Verdict.correct, "own"),
        (returning("torch.tanh(x.detach()) * 2, y, x.t()"), Verdict.correct, "reference"),
        (returning("torch.tanh(x) * 2, y.detach(), x.t()"), Verdict.wrong_gradients, ""),
        (returning("torch.tanh(x) * 2, x, x.t()"), Verdict.wrong_numbers, ""),
        (KEPT, Verdict.stale_output, ""),
    ],
)
async def test_what_is_passed_on_lies_in_the_input_and_all_else_does_not(
    device: Device, tmp_path: Path, source: str, verdict: Verdict, gradients: str
) -> None:
    report = await verified(device, tmp_path, source)

    assert (report.verdict, report.gradients) == (verdict, gradients), report.evidence


async def test_it_is_timed_as_others_are(device: Device, tmp_path: Path) -> None:
    source = returning("torch.tanh(x) * 2, y, x.t()")
    report = await verified(device, tmp_path, source)
    problem = load_problem(tmp_path / "mine.py")
    compiled, _ = await device.compile(source, "cpp")
    profile = await device.profile(problem, await device.validate_problem(problem), source, compiled, thorough=True)

    assert report.verdict is Verdict.correct
    assert profile.verdict is Verdict.correct, profile.evidence
