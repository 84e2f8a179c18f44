"""Requests to models that are cut off with their step count into the session's spending, and are in its log."""

import asyncio
from pathlib import Path

import pytest
from model_server import Failed, ModelServer, Said, model_server
from waiting import within

import given
from kernelswarm.agents.analyst.agent import Analyst
from kernelswarm.agents.model_adviser import ModelAdviser
from kernelswarm.agents.runtime import Work
from kernelswarm.agents.synthesizer.agent import Synthesizer
from kernelswarm.agents.synthesizer.model.spending import Ledger
from kernelswarm.bus import Bus
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import (
    CandidateProfiled,
    Event,
    Intent,
    MemoryOperator,
    ModelCalled,
    NodePlanned,
    RoleModel,
)
from kernelswarm.sessions.search import searching
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.store import run_sql

MODEL = "claude-opus-5-5"
PLAN = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate, synthesizer="anthropic")
PROFILED = CandidateProfiled(report=given.profile(1.0, 2.0))


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch):
    async with model_server() as scripted:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789-secret")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", scripted.url)
        yield scripted


def work_on(event: Event) -> Work:
    roles = (RoleModel(role="analyst", backend="anthropic", model=MODEL),)
    opened, graph = given.opened(roles=roles, synthesizer="anthropic", model=MODEL), SearchGraph("s-test1")
    graph.apply(given.envelope_of(opened), opened)
    envelope = given.envelope_of(event, node="n001", cause="n001")
    graph.apply(envelope, event)
    return Work(envelope, event, graph, 1)


async def asked(server: ModelServer, requests: int) -> None:
    """Wait until it has had so many."""
    async with asyncio.timeout(60):
        while len(server.bodies) < requests:
            server.requested.clear()
            await server.requested.wait()


@pytest.mark.parametrize(
    ("make", "event", "agent"),
    [
        (lambda bus, home: Synthesizer(bus, home), PLAN, "synthesizer"),
        (lambda bus, home: Analyst(ModelAdviser(bus, home)), PROFILED, "analyst"),
    ],
    ids=["author", "role"],
)
async def test_what_a_cancelled_step_asked_is_on_the_bus_and_counts(bus: Bus, server, tmp_path, make, event, agent):
    server.script = [Failed(529, "overloaded_error", "busy", {"retry-after": "0"}), Failed(hang=True)]
    working, work = make(bus, tmp_path), work_on(event)
    step = asyncio.create_task(working.handle(work))
    await asked(server, 2)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(step)
    await working.close()
    published = [envelope for _, envelope in await bus.history("s-test1")]
    first, call = (envelope.event() for envelope in published)
    assert isinstance(first, ModelCalled) and isinstance(call, ModelCalled) and first.cost is None
    assert call.error.startswith("cancelled: ") and call.estimated and call.input_tokens > 300 and call.cost > 0
    assert all(envelope.node == "n001" and envelope.agent == agent for envelope in published)
    assert all(envelope.cause not in ("", work.envelope.id) for envelope in published), "it is no answer of the step"
    elsewhere = Ledger()
    for envelope in published:
        work.graph.apply(envelope, envelope.event())
    elsewhere.observe(work.graph)
    assert elsewhere.spent.cost == pytest.approx(call.cost)


async def test_two_cancelled_tries_of_a_step_both_count(bus: Bus, server, tmp_path):
    for number in (1, 2):
        server.script, working = [Failed(hang=True)], Synthesizer(bus, tmp_path)
        step = asyncio.create_task(working.handle(work_on(PLAN)))
        await asked(server, number)
        step.cancel()
        await asyncio.wait([step])
        await working.close()
    assert len(await bus.history("s-test1")) == 2


async def test_an_interrupted_session_has_them_in_its_log(server, tmp_path: Path):
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    (tmp_path / "small.py").write_text(given.SOURCE)
    options = SearchOptions(budget=2, synthesizer="anthropic", model=MODEL, max_cost=5.0)
    server.answer = lambda body: Said("y" * 3_000, endless=True)
    async with searching(load_problem(tmp_path / "small.py"), "bare", options, home=tmp_path) as running:
        async for _ in running.events():
            if running.graph.nodes and running.graph.stop is None:
                await within(server.requested.wait())
                await asyncio.sleep(0.5)
                await running.stop("interrupted")
    result = running.result()
    asked = await run_sql(
        tmp_path, "SELECT error, output_tokens, cost FROM model_calls WHERE session = ?", params=[running.session]
    )
    assert len(asked.rows) == len(server.bodies) > 0
    assert result.model_cost == pytest.approx(sum(row[2] for row in asked.rows)), "what was cut off is paid for"
    assert result.model_tokens > 500 * len(asked.rows)
    for error, answered, cost in asked.rows:
        assert str(error).startswith("cancelled") and answered >= 500 and cost > 0
