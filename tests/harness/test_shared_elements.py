"""Outputs whose elements share memory: right numbers, but nobody could write into them, and little was written."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.inputs.sizes import overlaps
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROBLEM = """
import torch
shapes = {{"main": dict(rows=24, cols=64), "ragged": dict(rows=5, cols=33)}}
def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), 4]
def reference(x, heads):
    return {}
"""
REPEATED, EXPANDED = "torch.exp(x)[:, None].repeat(1, heads, 1)", "torch.exp(x)[:, None].expand(-1, heads, -1)"


@pytest.mark.parametrize(
    ("shape", "stride", "expected"),
    [
        ((4, 3), (3, 1), False),
        ((4, 3), (1, 4), False),
        ((4, 3), (8, 2), False),
        ((4, 1), (1, 0), False),
        ((4, 3), (0, 1), True),
        ((4, 3), (0, 100), True),
        ((4, 3), (1, 1), True),
        ((0, 3), (0, 0), False),
        ((), (), False),
    ],
)
async def test_elements_that_share_memory_are_told(
    shape: tuple[int, ...], stride: tuple[int, ...], expected: bool
) -> None:
    assert overlaps(shape, stride) is expected


@pytest.mark.parametrize(
    ("reference", "kernel", "verdict"),
    [
        (REPEATED, EXPANDED, Verdict.wrong_shape),
        (REPEATED, f"{EXPANDED}.contiguous()", Verdict.correct),
        (EXPANDED, EXPANDED, Verdict.correct),
        (EXPANDED, REPEATED, Verdict.correct),
    ],
)
async def test_outputs_have_memory_of_their_own_where_the_references_do(
    device: Device, tmp_path: Path, reference: str, kernel: str, verdict: Verdict
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(PROBLEM.format(reference))
    source = f"import torch\ndef kernel(x, heads): return {kernel}\n"
    compiled, _ = await device.compile(source, "cpp")

    report = await device.verify(load_problem(path), source, compiled)

    assert report.verdict is verdict, report.evidence
    assert verdict is Verdict.correct or (report.evidence and "share memory" in report.evidence.message)
