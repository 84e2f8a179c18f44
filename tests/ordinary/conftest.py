"""One problem and the processes of its eager baseline for all tests here: torch takes seconds to import."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from kernelswarm.hardware.harness.launcher import Launcher
from kernelswarm.hardware.harness.timing.effort import Effort
from kernelswarm.hardware.harness.validation_process import validate_problem
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.ordinary import Missing, OrdinaryHost, Settings
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import HardwareFacts, Pool, Problem, ProblemFacts, Timing

SCALE = """
import torch

shapes = {"main": dict(rows=64, cols=512), "ragged": dict(rows=7, cols=33)}

def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.rand(cols, generator=generator)]

def reference(x, w):
    return torch.softmax(x, -1) * w
"""
RIGHT = """
import torch

def kernel(x, w):
    return torch.softmax(x, -1) * w
"""

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",), candidate_seconds=20.0, candidate_memory_bytes=4 << 30)
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

Times = Callable[[str], Awaitable[Timing]]
Reason = Callable[[str], Awaitable[str]]


def problem_from(folder: Path, source: str, name: str) -> Problem:
    path = folder / f"{name}.py"
    path.write_text(source)
    return load_problem(path)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def launcher(home: Path) -> AsyncIterator[Launcher]:
    launcher = Launcher(POOL, HARDWARE, home)
    yield launcher
    await launcher.close()


@pytest.fixture(scope="session")
def facts_of(launcher: Launcher, home: Path) -> Callable[[Problem], Awaitable[ProblemFacts]]:
    return lambda problem: validate_problem(launcher, Lease(POOL, home), problem)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def host(home: Path, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OrdinaryHost]:
    problem = problem_from(tmp_path_factory.mktemp("problem"), SCALE, "scale")
    facts = await validate_problem(launcher, Lease(POOL, home), problem)
    host = OrdinaryHost(Settings(POOL, HARDWARE, home, ("eager",)), problem, facts)
    yield host
    await host.close()


@pytest.fixture(scope="session")
def times(host: OrdinaryHost, home: Path) -> Times:
    """Time a finished file, in one process."""
    return lambda text: host.time(text, Lease(POOL, home), effort=Effort(processes=1))


@pytest.fixture(scope="session")
def reason(times: Times) -> Reason:
    """Why a finished file cannot be timed."""

    async def why(text: str) -> str:
        with pytest.raises(Missing) as missing:
            await times(text)
        return str(missing.value)

    return why
