"""A problem that names one call: a kernel is judged on that call, and its file leaves other ones to the reference."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import CONTIGUOUS, FINITE, Verdict, VerifyReport, limits_text

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODULE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(64, 96)]

def get_init_inputs():
    return []
"""
FUNCTION = """
import torch

shapes = {"main": dict(rows=64, cols=96)}

def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator)]

def reference(x):
    return torch.relu(x) * 2
"""
BODIES = {
    "right": ("y = torch.relu(x) * 2", ()),
    "takes pointers as they come": ("y = torch.relu(x.as_strided(x.shape, (x.shape[1], 1))) * 2", (CONTIGUOUS,)),
    "refuses strides": ("assert x.is_contiguous()\n{pad}y = torch.relu(x) * 2", (CONTIGUOUS,)),
    "knows its sizes": ("y = torch.relu(x) * 2\n{pad}y[:, 90:] *= x.shape[1] / 96", ()),
    "forgets NaN": ("y = torch.fmax(x, torch.zeros(())) * 2", (FINITE,)),
}


def _module(body: str) -> str:
    pad = " " * 8
    return (
        f"import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n{pad}{body.format(pad=pad)}\n"
        f"{pad}return y\n"
    )


async def _verified(device: Device, folder: Path, problem: str, candidate: str) -> tuple[VerifyReport, str]:
    path = folder / "problem.py"
    path.write_text(problem)
    loaded = load_problem(path)
    try:
        facts = await device.validate_problem(loaded)
        compiled, _ = await device.compile(candidate, "cpp")
        report = await device.verify(loaded, candidate, compiled)
        return report, finish(loaded, facts, candidate, report)
    finally:
        await device.forget(loaded)


@pytest.mark.parametrize("name", BODIES)
async def test_what_is_right_for_the_call_alone_is_limited_to_it(device: Device, tmp_path: Path, name: str) -> None:
    body, limits = BODIES[name]

    report, text = await _verified(device, tmp_path, MODULE, _module(body))

    assert report.verdict is Verdict.correct and set(report.limits) == set(limits), report.evidence
    path = tmp_path / "best.py"
    path.write_text(text)
    names: dict[str, Any] = runpy.run_path(str(path), run_name="best")
    model, reference = names["ModelNew"](), torch.nn.ReLU()
    for x in (torch.randn(64, 96), torch.randn(96, 64).t(), torch.randn(70, 101), torch.randn(101, 70).t()):
        with torch.no_grad():
            torch.testing.assert_close(model(x), reference(x) * 2)


async def test_wrong_numbers_for_the_call_itself_convict(device: Device, tmp_path: Path) -> None:
    report, _ = await _verified(device, tmp_path, MODULE, _module("y = torch.relu(x) * 2\n{pad}y[3, 5] += 1e-3"))

    assert report.verdict is Verdict.wrong_numbers and not report.limits


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (
            "if not x.isfinite().all():\n{pad}    raise ValueError('NaN')\n{pad}y = torch.relu(x) * 2",
            Verdict.runtime_error,
        ),
        ("y = torch.relu(x) * 2\n{pad}y[x.abs() < 1e-38] = 1", Verdict.wrong_numbers),
    ],
    ids=["raises on NaN", "wrong on denormal numbers"],
)
async def test_what_the_finished_file_would_have_too_convicts(
    device: Device, tmp_path: Path, body: str, verdict: Verdict
) -> None:
    report, _ = await _verified(device, tmp_path, MODULE, _module(body))

    assert report.verdict is verdict and not report.limits, report.evidence


async def test_a_limit_to_finite_answers_leaves_those_to_be_right(device: Device, tmp_path: Path) -> None:
    """Of 16 MiB a call: denormal numbers, infinities and NaN come in one case."""
    body = "y = torch.fmax(x, torch.zeros(())) * 2\n{pad}y[x.abs() < 1e-38] = 1"

    report, _ = await _verified(device, tmp_path, MODULE.replace("64, 96", "1024, 2048"), _module(body))

    assert report.verdict is Verdict.wrong_numbers and report.evidence is not None
    assert report.evidence.inputs == "tiny+infinite+nan" and float(report.evidence.expected) < 1e-38


async def test_a_function_is_asked_for_every_layout_and_size(device: Device, tmp_path: Path) -> None:
    kernel = "import torch\n\ndef kernel(x):\n    return torch.relu(x.as_strided(x.shape, (x.shape[1], 1))) * 2\n"

    report, _ = await _verified(device, tmp_path, FUNCTION, kernel)

    assert report.verdict is Verdict.wrong_numbers and not report.limits


async def test_inputs_that_are_not_contiguous_are_no_limit(device: Device, tmp_path: Path) -> None:
    """The finished file would never call the kernel."""
    transposed = MODULE.replace("torch.randn(64, 96)", "torch.randn(96, 64).t()")
    body = "assert x.stride() == (1, 64)\n{pad}y = torch.relu(x) * 2"

    report, _ = await _verified(device, tmp_path, transposed, _module(body))

    assert report.verdict is Verdict.runtime_error and not report.limits


async def test_limits_are_a_sentence() -> None:
    assert limits_text((CONTIGUOUS, FINITE)).startswith("right only for contiguous inputs: as a drop-in it leaves")
