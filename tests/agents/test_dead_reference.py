"""A reference that dies while it is timed costs its session once, and is a sentence in its result."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from search_context import SearchContextOf, shared

from kernelswarm.bench.kernelbench import KernelBench
from kernelswarm.bench.runs import reading
from kernelswarm.bench.runs.row import Outcome, Row
from kernelswarm.hardware.harness import baseline_process
from kernelswarm.hardware.harness.launcher import Launcher
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Verdict
from kernelswarm.sessions.replay import replay
from kernelswarm.sessions.search import session_on
from kernelswarm.sessions.search_options import SearchOptions

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROBLEM = """
import ctypes, os, signal, sys, time
import torch

shapes = {{"main": dict(rows=64, cols=256)}}
calls = 0

def is_timed():
    frame, files = sys._getframe(), set()
    while frame is not None:
        files.add(os.path.basename(frame.f_code.co_filename))
        frame = frame.f_back
    return "baseline.py" in files

def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator)]

def reference(x):
    global calls
    calls += 1
    if is_timed() and calls > {survived}:
        {end}
    return torch.relu(x) * 2
"""

ENDS = {
    "segfault": ("ctypes.string_at(0)", "its process was killed by SIGSEGV"),
    "killed_for_memory": ("os.kill(os.getpid(), signal.SIGKILL)", "its process was killed by SIGKILL"),
    "no_memory": ("torch.empty(1 << 50)", "can't allocate memory"),
    "hang": ("time.sleep(3600)", "hung when it was timed"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def context(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SearchContextOf]:
    home = tmp_path_factory.mktemp("home")
    (home / "pools").mkdir()
    (home / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    async with shared(home, "bare") as context:
        yield context


@pytest.mark.parametrize(
    ("end", "survived"),
    [
        ("segfault", 40),
        ("hang", 40),
        ("no_memory", 40),
        pytest.param("killed_for_memory", 40, marks=pytest.mark.thorough),
        pytest.param("segfault", 0, marks=pytest.mark.thorough),
    ],
)
async def test_a_reference_that_dies_while_it_is_timed_ends_its_session_once(
    context: SearchContextOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, survived: int
) -> None:
    monkeypatch.setattr(baseline_process, "BATCH_SECONDS", 2.0)
    spawned: list[str] = []
    spawn = Launcher.spawn

    async def counting(launcher: Launcher, role: str, **options: object) -> object:
        spawned.append(role)
        return await spawn(launcher, role, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Launcher, "spawn", counting)
    statement, words = ENDS[end]
    path = tmp_path / f"{end}_{survived}.py"
    path.write_text(PROBLEM.format(end=statement, survived=survived))

    async with session_on(await context(load_problem(path)), SearchOptions(budget=3, seed=3)) as search:
        entries = [entry async for entry in search.events()]

    closed = search.graph.closed
    assert closed is not None and closed.reason == "reference_died" and not closed.win
    assert words in closed.detail and "Traceback" not in closed.detail and "\n" not in closed.detail
    # One more than there are kinds: a process that ends once may have met with the system's doing.
    assert spawned.count("baseline") <= (1 if end == "hang" else 2)
    assert all(node.diagnosis is not None for node in search.graph.own())
    assert {node.diagnosis.verdict for node in search.graph.own() if node.diagnosis} <= {
        Verdict.harness_error,
        Verdict.correct,
    }
    assert replay(search.session, list(enumerate((envelope for envelope, _ in entries), 1))).status == "closed"
    row = reading.row_of(Row(number=1, problem="p", verdict=Outcome.running), search.graph, 1.0, KernelBench())
    assert (row.verdict, row.cause) == (Outcome.no_correct_candidate, "reference died") and words in row.detail
