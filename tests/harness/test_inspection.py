"""A candidate reaches the process that profiles it, with the inputs and weights that it was timed on."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.inspection import PROGRAM, inspect
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.profilers.messages import Inspect
from kernelswarm.hardware.profilers.standby import Setting, Standby
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import DeviceProfile

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROWS = """
import torch
shapes = {"main": dict(rows=64, cols=512)}
def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.rand(cols, generator=generator)]
def reference(x, w):
    return x * w
"""
ROWS_KERNEL = """
import torch
def kernel(x, w):
    assert x.shape == (64, 512) and w.shape == (512,) and float(x.std()) > 0.5 and float(w.min()) >= 0
    return torch.mul(x, w)
"""
MODEL = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
    def forward(self, x):
        return torch.relu(self.linear(x))
def get_inputs():
    return [torch.randn(16, 32)]
def get_init_inputs():
    return [32]
"""
MODEL_KERNEL = """
import torch
import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
    def forward(self, x):
        assert x.shape == (16, 32)
        return torch.relu(self.linear(x))
"""


class OnTheProcessor:
    """The part of the profilers that needs no accelerator: a process of its own, and torch.profiler's operators."""

    def __init__(self) -> None:
        self.trace = b""

    async def profile(self, request: Inspect, files: Sequence[int], lease: Lease) -> DeviceProfile | None:
        standby = Standby("trace", Setting(PROGRAM, device="cpu"))
        try:
            await standby.connected(120.0)
            await standby.load(request, files)
            await standby.measure(request.seconds)
            self.trace = standby.output
        finally:
            await standby.close()
        return None


@pytest.mark.parametrize(
    ("problem", "kernel", "operator"),
    [
        (ROWS, ROWS_KERNEL, b"aten::mul"),
        (MODEL, MODEL_KERNEL, b"aten::relu"),
        (f"backward = True\n{ROWS}", ROWS_KERNEL, b"MulBackward0"),
    ],
)
async def test_what_is_profiled_gets_what_was_timed(
    device: Device, tmp_path: Path, problem: str, kernel: str, operator: bytes
) -> None:
    (tmp_path / "problem.py").write_text(problem)
    loaded = load_problem(tmp_path / "problem.py")
    compiled, _ = await device.compile(kernel, "cpp")
    profilers = OnTheProcessor()

    await inspect(
        profilers,  # type: ignore[arg-type]
        device._cases_of(loaded),
        device._lease,
        loaded,
        kernel,
        compiled,
        tmp_path,
        seconds=60.0,
    )

    assert operator in profilers.trace


async def test_a_processor_has_no_profilers_to_look_with(device: Device, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(ROWS)
    compiled, _ = await device.compile(ROWS_KERNEL, "cpp")
    assert await device.inspect(load_problem(tmp_path / "problem.py"), ROWS_KERNEL, compiled) is None
