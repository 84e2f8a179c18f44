"""One device, and finished files of its candidates."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import HardwareFacts, Pool, Problem, ProblemFacts, VerifyReport

POOL = Pool(
    name="cpu", platform="cpu", languages=("cpp",), threads=2, candidate_seconds=60.0, candidate_memory_bytes=12 << 30
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


@dataclass(frozen=True)
class Made:
    """A problem, its candidate, and the finished file of both."""

    problem: Problem
    facts: ProblemFacts
    candidate: str
    text: str


Make = Callable[..., Awaitable[Made]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def device(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Device]:
    home = tmp_path_factory.mktemp("home")
    async with Device(POOL, HARDWARE, home, baselines=("eager",), secret="tests") as device:
        yield device


@pytest.fixture
def make(device: Device, tmp_path: Path) -> Make:
    """Finish a candidate for a problem given as text or file; by default the generator's first draft."""

    async def finished(problem: str | Path, candidate: str = "", verified: VerifyReport | None = None) -> Made:
        path = problem if isinstance(problem, Path) else tmp_path / "problem.py"
        if isinstance(problem, str):
            path.write_text(problem)
        loaded = load_problem(path)
        facts = await device.validate_problem(loaded)
        if not candidate:
            if facts.graph is None:
                pytest.skip(f"it is not captured: {facts.capture_error}")
            candidate = CODEGEN_BACKENDS["cpp"].source(facts, facts.graph, {}, HARDWARE)
        return Made(loaded, facts, candidate, finish(loaded, facts, candidate, verified))

    return finished


async def verified(device: Device, made: Made, source: str) -> VerifyReport:
    compiled, _ = await device.compile(source, "cpp")
    return await device.verify(made.problem, source, compiled)
