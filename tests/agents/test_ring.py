"""The whole ring: a real server, real compilers, real processes; only torch.compile is left out, for its 20 s."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import brief
import pytest
import pytest_asyncio
from search_context import SearchContextOf, shared
from waiting import LONG_S, within

import given
from kernelswarm.agents.analyst import diagnose
from kernelswarm.agents.planner.machine import decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.bus import embedded
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import (
    BaselinesMeasured,
    CandidateProfiled,
    ConfirmationPlanned,
    Envelope,
    Event,
    NodeDiagnosed,
    NodePlanned,
    SessionClosed,
    SkillDistilled,
    StopRequested,
)
from kernelswarm.sessions.results import evaluation_of
from kernelswarm.sessions.search import Search, searching, session_on
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.store import Log, log_path, run_sql

OPTIONS = SearchOptions(budget=4, seed=3)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a pool that is timed against eager alone."""
    home = tmp_path_factory.mktemp("home")
    (home / "pools").mkdir()
    (home / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    (home / "small.py").write_text(given.SOURCE)
    return home


Finished = tuple[SearchGraph, list[tuple[Envelope, Event]]]


async def ended(running: Search) -> Finished:
    entries = [entry async for entry in running.events()]
    return running.graph, entries


@pytest.fixture(scope="module")
def finished(home: Path) -> Finished:
    async def search() -> Finished:
        async with searching(load_problem(home / "small.py"), "bare", OPTIONS, home=home) as running:
            return await ended(running)

    return asyncio.run(search())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def context(home: Path, finished: Finished) -> AsyncIterator[SearchContextOf]:
    """For the sessions that come after the first."""
    async with shared(home, "bare") as context:
        yield context


async def search(context: SearchContextOf, home: Path, options: SearchOptions) -> SearchGraph:
    async with session_on(await context(load_problem(home / "small.py")), options) as running:
        return (await ended(running))[0]


def test_every_candidate_is_compiled_verified_timed_and_diagnosed(finished: Finished) -> None:
    graph, entries = finished
    assert graph.closed is not None and graph.closed.candidates == len(graph.nodes) == 4
    assert any(isinstance(event, BaselinesMeasured) for _, event in entries)
    for node in graph.nodes.values():
        assert node.candidate and node.compile_report and node.verify_report and node.diagnosis
        assert node.verify_report.cases and "process" in node.verify_report.isolation
    best = graph.nodes[graph.closed.best]
    assert best.confirmation is not None and best.confirmation.timing is not None
    assert {series.name for series in best.confirmation.timing.series} == {"eager", "candidate"}
    assert len(best.confirmation.timing.rounds) == brief.PLAN.processes, "measuring is brief in tests"
    confirmed = [envelope.node for envelope, event in entries if isinstance(event, ConfirmationPlanned)]
    assert len(confirmed) == len(set(confirmed)) >= 3, "no finalist is measured again"


def test_every_event_answers_one_that_came_before(finished: Finished) -> None:
    _, entries = finished
    ids = set()
    for envelope, _ in entries:
        assert envelope.cause in ids or envelope.agent == "user"
        ids.add(envelope.id)


def test_a_fresh_planner_and_analyst_fed_the_log_say_the_same(finished: Finished) -> None:
    _, entries = finished
    planner, graph, decided, planned = PlannerState(), SearchGraph("replay"), [], []
    for envelope, event in entries:
        graph.apply(envelope, event)
        decided += [(d.node, d.event) for d in decide(planner, event, envelope.node)]
        if envelope.agent == "planner":
            planned.append((envelope.node, event))
        if isinstance(event, NodeDiagnosed):
            cause = next(entry for entry in entries if entry[0].id == envelope.cause)
            as_of = SearchGraph("replay")
            for past, past_event in entries[: entries.index(cause) + 1]:
                as_of.apply(past, past_event)
            assert diagnose(as_of, envelope.node, cause[1]) == event
    assert decided == planned


async def test_the_log_has_it_all_and_its_chain_holds(home: Path, finished: Finished) -> None:
    graph, entries = finished
    table = await run_sql(home, "SELECT id FROM events WHERE session = ? ORDER BY seq", params=(graph.session,))
    assert [row[0] for row in table.rows] == [envelope.id for envelope, _ in entries]
    with Log.open(log_path(home), read_only=True) as log:
        assert log.verify().ok


@pytest.mark.thorough
@pytest.mark.asyncio(loop_scope="module")
async def test_a_later_session_on_a_like_problem_tries_the_skill_first(
    context: SearchContextOf, home: Path, finished: Finished
) -> None:
    _, entries = finished
    skill = next(event.skill for _, event in entries if isinstance(event, SkillDistilled))
    graph = await search(context, home, SearchOptions(budget=1, seed=9))
    assert graph.opened is not None and skill.id in [offered.id for offered in graph.opened.skills]
    first = graph.nodes["n001"].candidate
    assert first is not None
    assert skill.recipes, "a search against eager alone wins here"
    assert first.skills == (skill.id,) and first.recipe == skill.recipes[0]


@pytest.mark.thorough  # tests/cli/test_ends_of_searches.py interrupts one by a signal
@pytest.mark.asyncio(loop_scope="module")
async def test_an_interruption_closes_the_session_and_keeps_what_was_found(
    context: SearchContextOf, home: Path
) -> None:
    async with session_on(await context(load_problem(home / "small.py")), SearchOptions(budget=400)) as running:
        async for _, event in running.events():
            if isinstance(event, CandidateProfiled):
                await running.stop("interrupted")
    closed = running.graph.closed
    assert closed is not None and closed.reason == "interrupted" and closed.candidates < 400
    assert isinstance(running.graph.stop, StopRequested)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_given_candidate_is_judged_by_the_same_ring(context: SearchContextOf, home: Path) -> None:
    source = "import torch\ndef kernel(x, w):\n    return torch.zeros_like(x)\n"
    graph = await search(context, home, SearchOptions(budget=1, synthesizer="given", candidates=(source,)))
    evaluation = evaluation_of(graph, "bare")
    assert (evaluation.verdict, evaluation.correct) == ("wrong_numbers", False)
    assert evaluation.evidence["expected"] != evaluation.evidence["got"]


@pytest.mark.thorough  # tests/bus/test_permissions.py has a whole search through connections, too
async def test_a_swarm_elsewhere_does_the_work_of_a_search_without_workers(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "pools", tmp_path / "pools")
    async with embedded(tmp_path) as url:
        command = [sys.executable, brief.__file__, "swarm", "--pool", "bare", "--nats", url]
        environment = {**os.environ, "KERNELSWARM_HOME": str(home)}
        swarm = await asyncio.create_subprocess_exec(*command, env=environment)
        try:
            async with asyncio.timeout(LONG_S):
                async with searching(
                    load_problem(home / "small.py"), "bare", SearchOptions(budget=2), home=tmp_path, nats=url, roles={}
                ) as running:
                    entries = [entry async for entry in running.events()]
        finally:
            swarm.send_signal(signal.SIGINT)
            await within(swarm.wait())
    assert swarm.returncode == 0
    assert isinstance(running.graph.closed, SessionClosed)
    workers = {envelope.worker.split(".")[1] for envelope, _ in entries if envelope.agent != "user"}
    assert workers == {str(swarm.pid)}
    assert [type(event) for _, event in entries].count(NodePlanned) == 2
