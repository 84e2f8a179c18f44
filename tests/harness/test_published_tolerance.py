"""A tolerance that a problem's source publishes is reported beside the judge's rule, and decides nothing."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROBLEM = """
import torch
shapes = {"main": dict(rows=64), "odd": dict(rows=7)}
published_tolerance = {"main": dict(atol=1e-2, rtol=0.0, share=0.99), "odd": dict(atol=0.0, rtol=0.0, share=1.0)}
def inputs(generator, rows):
    return [torch.randn(rows, 33, generator=generator)]
def reference(x):
    return torch.tanh(x) + x
"""
KERNEL = "import torch\ndef kernel(x):\n    return torch.tanh(x) + x"


async def test_right_numbers_may_fail_a_published_tolerance_and_stay_right(device: Device, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    problem = load_problem(tmp_path / "problem.py")
    source = KERNEL + " * (1 + 1e-6)\n"
    report, _ = await device.compile(source, "cpp")
    verified = await device.verify(problem, source, report)
    assert verified.verdict is Verdict.correct, verified.evidence
    by_shape = {
        shape: {case.published for case in verified.cases if case.shape == shape and case.inputs == "normal"}
        for shape in ("main", "odd")
    }
    assert by_shape == {"main": {True}, "odd": {False}}
    assert {case.published for case in verified.cases if case.inputs != "normal"} <= {None}


async def test_numbers_within_a_published_tolerance_may_be_wrong(device: Device, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    problem = load_problem(tmp_path / "problem.py")
    source = KERNEL + " * (1 + 1e-4)\n"
    report, _ = await device.compile(source, "cpp")
    assert (await device.verify(problem, source, report)).verdict is Verdict.wrong_numbers
