"""Outside authors at a real session: a real server, real compilers, the real judge; only who writes is a test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from search_context import shared
from waiting import LONG_S, within

import given
from kernelswarm.bus import Bus, running
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import (
    FINISHED,
    OUTSIDE,
    BusError,
    ClaimRequested,
    Event,
    InputError,
    Intent,
    MemoryOperator,
    NodePlanned,
    SessionClosed,
    StopRequested,
    TaskExpired,
    TaskOpened,
    Verdict,
    seal,
)
from kernelswarm.sessions.outside import client
from kernelswarm.sessions.outside.answers import Refused, Unserved
from kernelswarm.sessions.outside.client import OutsideAuthor
from kernelswarm.sessions.recorded_session import read_session
from kernelswarm.sessions.replay import replay
from kernelswarm.sessions.resume import resuming
from kernelswarm.sessions.search import Search, searching, session_on
from kernelswarm.sessions.search_options import SearchOptions

RIGHT = """
import ctypes
import torch

CPP_SOURCE = r'''
#include <cmath>
extern "C" void rms(const float* x, const float* w, float* out, long rows, long cols) {
  for (long r = 0; r < rows; r++) {
    double sum = 0;
    for (long c = 0; c < cols; c++) sum += (double)x[r * cols + c] * x[r * cols + c];
    float scale = (float)(1.0 / std::sqrt(sum / cols + 1e-6));
    for (long c = 0; c < cols; c++) out[r * cols + c] = x[r * cols + c] * scale * w[c];
  }
}
'''

_lib = _load()
_lib.rms.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2
_lib.rms.restype = None

def kernel(x, w):
    x, w = x.contiguous(), w.contiguous()
    out = torch.empty_like(x)
    _lib.rms(x.data_ptr(), w.data_ptr(), out.data_ptr(), x.shape[0], x.shape[1])
    return out
"""
WRONG = RIGHT.replace("1e-6", "1e-2")
BROKEN = RIGHT.replace("double sum = 0;", "double sum = 0")
OPTIONS = SearchOptions(budget=3, seed=1, synthesizer="outside", policy_options={"finalists": 1})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / "pools").mkdir()
    (home / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    (home / "small.py").write_text(given.SOURCE)
    return home


@asynccontextmanager
async def author(home: Path, agent: str) -> AsyncIterator[OutsideAuthor]:
    """As another process reaches a session that runs on ``home``."""
    url = running(home)
    assert url
    async with await Bus.connect(url, name=agent) as bus:
        yield OutsideAuthor(bus, home, agent)


@asynccontextmanager
async def followed(search: Search) -> AsyncIterator[None]:
    """The session is followed to its end, as the command line does it."""

    async def follow() -> None:
        async for _ in search.events():
            pass

    following = asyncio.create_task(follow())
    try:
        yield
        await within(following, LONG_S)
    finally:
        following.cancel()


async def test_two_agents_work_a_session_to_its_end_and_it_replays(home: Path) -> None:
    async with (
        shared(home, "bare") as context,
        session_on(await context(load_problem(home / "small.py")), OPTIONS) as search,
        followed(search),
        author(home, "alice") as alice,
        author(home, "bob") as bob,
    ):
        first, second = await asyncio.gather(alice.claim(wait_s=LONG_S), bob.claim(search.session, wait_s=LONG_S))
        assert {first.task, second.task} == {f"{search.session}/n001", f"{search.session}/n002"}
        assert first.lease and second.lease and first.reference == given.SOURCE
        assert first.write.startswith("def kernel(x, w)") and first.shapes[0].name == "main"

        broken = await alice.check(first.lease.lease, BROKEN)
        assert (broken.verdict, broken.checks_left) == (Verdict.compile_error, 11)
        assert any("expected" in message.message for message in broken.diagnostics)
        wrong = await alice.check(first.lease.lease, WRONG)
        assert (wrong.correct, wrong.verdict) == (False, Verdict.wrong_numbers)
        assert wrong.evidence is not None and wrong.evidence.seed is None
        assert await alice.check(first.lease.lease, WRONG) == wrong, "the same file is checked once"

        mine, theirs = await asyncio.gather(
            alice.submit(first.lease.lease, RIGHT, "one pass", wait_s=LONG_S),
            bob.submit(second.lease.lease, WRONG, wait_s=LONG_S),
        )
        assert mine.answer is not None and mine.answer.correct and mine.answer.speedup and mine.answer.findings
        assert theirs.answer is not None and theirs.answer.verdict is Verdict.wrong_numbers
        assert theirs.answer.evidence is not None and theirs.answer.evidence.seed is None
        again = await alice.submit(first.lease.lease, RIGHT, "one pass")
        assert again.accepted and again.answer == mine.answer, "the same hand-in has the same answer"
        refused = await bob.submit(second.lease.lease, RIGHT)
        assert not refused.accepted and "the same file is" in refused.reason

        last = await bob.claim(search.session, wait_s=LONG_S)
        assert [tried.author for tried in last.tried] == ["alice", "bob"]
        late = await alice.submit(first.lease.lease, RIGHT + "\n# another\n")
        assert not late.accepted and "was handed in, and no other task is free" in late.reason
        assert last.lease and (await bob.release(last.lease.lease)).released
        late = await alice.submit(first.lease.lease, RIGHT + "\n# another one\n", wait_s=LONG_S)
        assert late.accepted and "was over: this is" in late.reason
        board = await alice.leaderboard(search.session)
        assert [place.author for place in board.places if place.verdict is Verdict.correct] == ["alice", "alice"]
        assert board.places[-1].author == "bob"
    assert search.graph.closed is not None and search.graph.closed.correct == 2
    assert search.graph.nodes[search.graph.closed.best].candidate is not None
    recorded = await read_session(home, search.session, verify=True)
    report = replay(search.session, recorded.events)
    assert report.status == "closed" and report.unknown == 0 and not report.unsaid


async def test_a_session_goes_on_after_its_process_and_its_server_were_gone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = load_problem(home / "small.py")
    options = SearchOptions(budget=1, synthesizer="outside", policy_options={"finalists": 1})
    async with searching(problem, "bare", options, home=home) as search, author(home, "alice") as alice:
        brief = await alice.claim(search.session, wait_s=LONG_S)
        assert brief.lease
        bystander = await alice.tasks(search.session)
        assert [(row.state, row.agent, row.lease) for row in bystander] == [("held", "alice", brief.lease.lease)]
    assert not running(home)
    # The session is open; agents and server come back, and so does the author, with the lease it had.
    async with resuming(search.session, home=home) as search, followed(search), author(home, "alice") as alice:
        answer = await alice.submit(brief.lease.lease, RIGHT, wait_s=LONG_S)
        assert answer.accepted and answer.answer is not None and answer.answer.correct
    assert search.graph.closed is not None and search.graph.closed.best == "n001"


@pytest.mark.thorough  # tests/agents/test_session_tasks.py has the timer and the rules
async def test_a_lease_expires_by_an_event_and_the_task_goes_to_who_waits(home: Path) -> None:
    problem = load_problem(home / "small.py")
    options = SearchOptions(budget=1, synthesizer="outside")
    async with (
        searching(problem, "bare", options, home=home) as search,
        followed(search),
        author(home, "alice") as alice,
        author(home, "bob") as bob,
    ):
        brief = await alice.claim(search.session, minutes=0.01, wait_s=LONG_S)
        assert brief.lease
        taken = await bob.claim(search.session, wait_s=LONG_S)
        assert taken.lease and taken.lease.lease == f"{search.session}/n001/2"
        with pytest.raises(Refused, match="n001/1 expired"):
            await alice.check(brief.lease.lease, RIGHT)
        with pytest.raises(InputError, match="has no node 'n009'"):
            await alice.answer(f"{search.session}/n009")
        # The last task is held: it is over when that is given back, and nothing new is planned.
        await search.stop("minutes")
        assert (await bob.release(taken.lease.lease)).released
    closed = search.graph.closed
    assert closed is not None and closed.reason == "minutes"
    events = [envelope.event() for _, envelope in (await read_session(home, search.session)).events]
    assert [event.lease for event in events if isinstance(event, TaskExpired)] == [f"{search.session}/n001/1"]


async def test_a_session_that_nobody_serves_is_told_from_one_without_tasks(
    home: Path, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SERVED_S", 0.2)
    dave = OutsideAuthor(bus, home, "dave")
    with pytest.raises(Refused, match="no open session waits"):
        await dave.claim()
    with pytest.raises(InputError, match="there is no session 'nowhere'"):
        await dave.claim("nowhere")
    opening = given.envelope_of(given.opened(synthesizer="outside"))
    await bus.publish(opening)
    with pytest.raises(Unserved, match="nobody serves it just now"):
        await dave.claim("s-test1")


async def test_where_the_bus_shows_no_session_a_search_may_still_start(home: Path) -> None:
    class Silent:
        async def open_sessions(self, kind: type[Event]) -> list[str]:
            raise BusError("the event bus at nats://x did not open the stream for reading: the server does not answer")

    dave = OutsideAuthor(cast(Bus, Silent()), home, "dave")
    sentence = r"no session can be seen yet \(the event bus .* validates its problem before .* claim --wait 600` waits"
    with pytest.raises(BusError, match=sentence):
        await dave.claim()


@pytest.mark.parametrize(("is_lost", "asked"), [(False, 2), (True, 1)])
async def test_who_waits_asks_a_busy_bus_again(home: Path, is_lost: bool, asked: int) -> None:
    """The message says that `--wait` waits."""
    refusals = []

    class Busy:
        def __init__(self) -> None:
            self.is_lost = is_lost

        async def open_sessions(self, kind: type[Event]) -> list[str]:
            refusals.append(kind)
            raise BusError("the event bus at nats://x did not open the stream for reading: the server does not answer")

    with pytest.raises(BusError, match="no session can be seen yet"):
        await OutsideAuthor(cast(Bus, Busy()), home, "dave").claim(wait_s=0.1)
    assert len(refusals) == asked


async def test_an_author_says_that_nothing_more_comes_and_hears_what_is_waited_for(home: Path, bus: Bus) -> None:
    dave = OutsideAuthor(bus, home, "dave")
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.inherit, synthesizer=OUTSIDE)
    claim = ClaimRequested(agent="dave", minutes=30.0)
    for index, (event, node) in enumerate([(given.opened(synthesizer=OUTSIDE), ""), (plan, "n001"), (claim, "")]):
        await bus.publish(given.envelope_of(event, node=node, index=index))
    finish = await dave.finish("s-test1")
    assert (finish.state, finish.held) == ("open", ("s-test1/n001/1",)) and "s-test1/n001/1" in finish.detail
    assert (await dave.finish("s-test1")).held == finish.held
    stops = [entry for _, entry in await bus.history("s-test1") if isinstance(entry.event(), StopRequested)]
    assert [stop.event() for stop in stops] == [StopRequested(reason=FINISHED)], "it is said once"
    await bus.publish(given.envelope_of(SessionClosed(reason=FINISHED, best="n001", detail="no win found"), index=9))
    closed = await dave.finish("s-test1", wait_s=LONG_S)
    assert (closed.state, closed.best, closed.win, closed.detail) == ("closed", "n001", False, "no win found")


@pytest.mark.parametrize("name", ["", "a//b", "a/b/c/d", "just-a-session"])
async def test_a_word_that_is_no_lease_is_named(home: Path, bus: Bus, name: str) -> None:
    with pytest.raises(InputError, match="is not SESSION/NODE/N"):
        await OutsideAuthor(bus, home, "dave").submit(name, RIGHT)


async def test_a_claim_that_waits_listens_and_asks_when_a_task_may_be_free_and_at_the_end(home: Path, bus: Bus) -> None:
    """A request is an event, and so is its refusal: the log is not to grow while somebody waits."""
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.inherit, synthesizer=OUTSIDE)
    opened = given.opened(synthesizer=OUTSIDE)
    carol = ClaimRequested(agent="carol", minutes=30.0)
    for index, (event, node) in enumerate([(opened, ""), (plan, "n001"), (TaskOpened(checks=12), "n001"), (carol, "")]):
        await bus.publish(given.envelope_of(event, node=node, index=index))

    async def serve() -> None:
        """Answers as the dispatcher does."""
        graph = SearchGraph("s-test1")
        async for _, envelope in bus.tail(session="s-test1"):
            event = envelope.event()
            assert event is not None
            graph.apply(envelope, event)
            for ruling in graph.tasks.rulings.get(envelope.id, ()) if isinstance(event, ClaimRequested) else ():
                assert isinstance(ruling.outcome, Event)
                answer = seal(
                    ruling.outcome,
                    session="s-test1",
                    pool=envelope.pool,
                    node=ruling.node,
                    cause=envelope.id,
                    agent="dispatcher",
                    worker="test",
                    at_ns=1,
                )
                await bus.publish(answer)

    async def asked() -> list[str]:
        events = [envelope.event() for _, envelope in await bus.history("s-test1")]
        return [event.agent for event in events if isinstance(event, ClaimRequested)]

    serving = asyncio.create_task(serve())
    dave, erin = OutsideAuthor(bus, home, "dave"), OutsideAuthor(bus, home, "erin")
    with pytest.raises(Refused, match=r"no task of s-test1 is free \(1 held\)"):
        await within(dave.claim("s-test1", wait_s=5.0))
    assert await asked() == ["carol", "dave"], "once, at the end"
    waiting = asyncio.gather(dave.claim("s-test1", wait_s=LONG_S), erin.claim(wait_s=LONG_S))
    await asyncio.sleep(5.0)
    assert await asked() == ["carol", "dave"], "who waits says nothing"
    for index, node in enumerate(("n002", "n003"), 10):
        await bus.publish(given.envelope_of(plan, node=node, index=index))
    briefs = await within(waiting)
    assert {brief.task for brief in briefs} == {"s-test1/n002", "s-test1/n003"}
    assert 4 <= len(await asked()) <= 5, "one may have asked for what the other one got"
    waiting = asyncio.gather(dave.claim("s-test1", wait_s=LONG_S), return_exceptions=True)
    await asyncio.sleep(0.5)
    await bus.publish(given.envelope_of(StopRequested(reason=FINISHED), index=20))
    (refusal,) = await within(waiting)
    assert isinstance(refusal, Refused) and "about to end" in str(refusal), "nobody waits for what will not come"
    serving.cancel()
