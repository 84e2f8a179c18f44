"""One device for all tests of the harness: its fork server takes seconds to start."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import HardwareFacts, Pool, Problem, ProblemFacts, VerifyReport

RMSNORM = """
import torch

shapes = {"main": dict(rows=64, cols=512), "ragged": dict(rows=7, cols=33)}

def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.rand(cols, generator=generator)]

def reference(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
"""

POOL = Pool(
    name="cpu", platform="cpu", languages=("cpp",), threads=2, candidate_seconds=60.0, candidate_memory_bytes=4 << 30
)

HARDWARE = HardwareFacts(
    device="test",
    cores=2,
    isa=(),
    vector_bytes=32,
    l2_bytes=1 << 20,
    l3_bytes=1 << 24,
    memory_bytes=16 << 30,
    copy_gbps=10.0,
    peak_gflops=100.0,
)

Verify = Callable[[str], Awaitable[VerifyReport]]


def problem_from(folder: Path, source: str, name: str = "problem") -> Problem:
    path = folder / f"{name}.py"
    path.write_text(source)
    return load_problem(path)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def device(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Device]:
    home = tmp_path_factory.mktemp("home")
    async with Device(POOL, HARDWARE, home, baselines=("eager",), secret="tests") as device:
        yield device


@pytest.fixture(scope="session")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return problem_from(tmp_path_factory.mktemp("problem"), RMSNORM, "rmsnorm")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def facts(device: Device, problem: Problem) -> ProblemFacts:
    return await device.validate_problem(problem)


@pytest.fixture(scope="session")
def verify(device: Device, problem: Problem) -> Verify:
    async def judge(source: str) -> VerifyReport:
        report, _ = await device.compile(source, "cpp")
        return await device.verify(problem, source, report)

    return judge
