"""Every kind of problem that fits into a pool is timed from outside, and what is wrong there alone is found."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.schemas import Problem, ProfileReport, Verdict

from .conftest import problem_from

pytestmark = pytest.mark.asyncio(loop_scope="session")

KINDS = {
    "a reduction": (
        'shapes = {"main": dict(n=4096)}\n'
        "def inputs(generator, n): return [torch.randn(64, n, generator=generator)]\n"
        "def reference(x): return x.mean()\n",
        "def kernel(x): return x.mean()\n",
    ),
    "a number": (
        'shapes = {"main": dict(n=512)}\n'
        "def inputs(generator, n): return [torch.randn(n, generator=generator), torch.randn(n, generator=generator)]\n"
        "def reference(x, y): return x + y, float((x > 0).sum())\n",
        "def kernel(x, y): return x + y, float((x > 0).sum())\n",
    ),
    "a transposed output": (
        'shapes = {"main": dict(n=96)}\n'
        "def inputs(generator, n): return [torch.randn(n, 2 * n, generator=generator)]\n"
        "def reference(x): return (x * 2).t(), x + 1\n",
        "def kernel(x): return (x * 2).t(), x + 1\n",
    ),
    "an input that is written": (
        'shapes = {"main": dict(n=2048)}\n'
        "def inputs(generator, n): return [torch.randn(n, generator=generator), torch.randn(n, generator=generator)]\n"
        "def reference(x, y):\n    x += y\n    return x * y\n",
        "def kernel(x, y):\n    x += y\n    return x * y\n",
    ),
    "sizes that differ from set to set": (
        'shapes = {"main": dict(n=256)}\n'
        "def inputs(generator, n):\n"
        "    lengths = torch.randint(1, 32, (n,), generator=generator)\n"
        "    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])\n"
        "    return [torch.randn(int(offsets[-1]), 8, generator=generator), offsets]\n"
        "def reference(rows, offsets): return rows * 2, torch.segment_reduce(rows, 'sum', offsets=offsets, axis=0)\n",
        "def kernel(rows, offsets): return rows * 2, torch.segment_reduce(rows, 'sum', offsets=offsets, axis=0)\n",
    ),
    "sizes that differ, and an input that is written": (
        'shapes = {"main": dict(n=256)}\n'
        "def inputs(generator, n):\n"
        "    rows = int(torch.randint(n, 2 * n, (), generator=generator))\n"
        "    return [torch.randn(rows, 8, generator=generator), torch.randn(8, generator=generator)]\n"
        "def reference(x, y):\n    x += y\n    return x * y\n",
        "def kernel(x, y):\n    x += y\n    return x * y\n",
    ),
    "a number among the inputs that differs": (
        'shapes = {"main": dict(n=512)}\n'
        "def inputs(generator, n):\n"
        "    power = 1 + int(torch.randint(0, 9, (), generator=generator))\n"
        "    return [torch.randn(n, generator=generator), power]\n"
        "def reference(x, power): return x.pow(power)\n",
        "def kernel(x, power): return x.pow(power)\n",
    ),
    "both passes": (
        'backward = True\nshapes = {"main": dict(n=2048)}\n'
        "def inputs(generator, n): return [torch.randn(n, generator=generator)]\n"
        "def reference(x): return torch.tanh(x)\n",
        "def kernel(x): return torch.tanh(x)\n",
    ),
}
MODULE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(64))
    def forward(self, x):
        self.mean.lerp_(x.mean(0), 0.1)
        return x * 2
def get_inputs(): return [torch.randn(256, 64)]
def get_init_inputs(): return []
"""


async def profiled(device: Device, problem: Problem, source: str) -> ProfileReport:
    facts = await device.validate_problem(problem)
    report, _ = await device.compile(source, "cpp")
    assert (await device.verify(problem, source, report)).verdict is Verdict.correct
    return await device.profile(problem, facts, source, report)


@pytest.mark.parametrize("kind", KINDS)
async def test_functions_are(device: Device, tmp_path: Path, kind: str) -> None:
    reference, kernel = KINDS[kind]
    report = await profiled(device, problem_from(tmp_path, f"import torch\n{reference}"), f"import torch\n{kernel}")
    assert report.verdict is Verdict.correct, report.evidence
    assert report.isolation.endswith("+frozen")


async def test_modules_with_state_are(device: Device, tmp_path: Path) -> None:
    report = await profiled(device, problem_from(tmp_path, MODULE), MODULE.replace("class Model(", "class ModelNew("))
    assert report.verdict is Verdict.correct, report.evidence
    assert report.isolation.endswith("+frozen")


LATE = "calls = [0]\ndef late():\n    calls[0] += 1\n    return calls[0] > 60\n"
"""From a call on that verification does not reach."""


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ("self.mean.lerp_(x.mean(0), 0.1) if late() else None", Verdict.wrong_state),
        ("x = x + 1e-3 if late() else x", Verdict.wrong_numbers),
    ],
)
async def test_what_is_wrong_while_it_is_timed_alone_is_found(
    device: Device, tmp_path: Path, wrong: str, verdict: Verdict
) -> None:
    candidate = MODULE.replace("class Model(", "class ModelNew(")
    # It leaves a step out, or makes it once more.
    candidate = candidate.replace("        self.mean.lerp_", f"        {wrong}\n        self.mean.lerp_")
    source = candidate.replace("class ModelNew", f"{LATE}class ModelNew")
    report = await profiled(device, problem_from(tmp_path, MODULE), source)
    assert report.verdict is verdict, report.evidence


@pytest.mark.parametrize(
    ("second", "verdict"), [("x + 1", Verdict.correct), ("torch.zeros_like(x)", Verdict.wrong_numbers)]
)
async def test_an_error_beside_the_bound_hides_no_other_output(
    device: Device, tmp_path: Path, second: str, verdict: Verdict
) -> None:
    problem = (
        'import torch\nshapes = {"main": dict(n=4096)}\n'
        "def inputs(generator, n): return [torch.randn(n, generator=generator)]\n"
        "def reference(x): return x * 2, x + 1\n"
    )
    # One and a half times what is allowed, where a number is much larger than the others' root mean square.
    kernel = f"    return (x * 2 * (1 + 3.6e-6), {second}) if late() else (x * 2, x + 1)\n"
    report = await profiled(device, problem_from(tmp_path, problem), f"import torch\n{LATE}def kernel(x):\n{kernel}")
    assert report.verdict is verdict, report.evidence
    assert verdict is Verdict.correct or (report.evidence is not None and report.evidence.output == 1)
