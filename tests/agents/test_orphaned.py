"""A session that is out of minutes where nobody serves its pool ends its waiting, on a real server."""

import functools
import time
from collections.abc import Iterable

import pytest
from waiting import eventually, within

import given
from kernelswarm.agents.planner.agent import Planner
from kernelswarm.agents.registry import ROLES
from kernelswarm.agents.runtime import Histories, Worker
from kernelswarm.bus import Bus
from kernelswarm.bus.alive import running_beside
from kernelswarm.schemas import NodePlanned, WorkerPresence
from kernelswarm.sessions import search as searches
from kernelswarm.sessions.orphaned import OrphanedSession, left_alone, stuck_without
from kernelswarm.sessions.search import Search
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.sessions.session import open_session
from kernelswarm.sessions.timer import timed

SESSION = "rmsnorm-abcde"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two minutes of patience are half a second here."""
    monkeypatch.setattr(searches, "left_alone", functools.partial(left_alone, patience_s=0.5, every_s=0.05))


async def opened(bus: Bus) -> Search:
    given_to = (given.problem(), given.facts(), given.pool(), given.hardware(), SearchOptions(budget=4, minutes=1.0))
    seq, envelope = await open_session(bus, SESSION, *given_to)
    return Search(SESSION, given.pool().name, bus, None, envelope.id, seq - 1)


async def ends(search: Search) -> str:
    """The sentence that the search ends with once its minutes are over."""
    with pytest.raises(OrphanedSession) as caught, timed(search, 0.0):
        async for _ in search.events():
            pass
    return str(caught.value)


def workers(roles: Iterable[str], busy_with: str = "", pool: str = given.pool().name) -> list[WorkerPresence]:
    at_work = dict(busy=bool(busy_with), busy_with=busy_with)
    fields = dict(pool=pool, host="h", pid=1, since_ns=1, at_ns=time.time_ns(), **at_work)
    return [WorkerPresence(worker=f"h.1.{role}.1", role=role, **fields) for role in roles]


async def test_a_session_that_no_worker_came_to_ends_with_its_minutes_and_stays_open(bus: Bus) -> None:
    search = await opened(bus)
    sentence = await within(ends(search))
    assert f"session {SESSION} is out of minutes, and pool {given.pool().name} has no worker" in sentence
    assert f"kernelswarm swarm --pool {given.pool().name} --nats {bus.url}" in sentence
    assert f"kernelswarm resume {SESSION} --nats {bus.url}" in sentence
    assert search.graph.closed is None and search.graph.stop is not None and search.graph.stop.reason == "minutes"


async def test_workers_that_left_with_candidates_in_flight_are_named(bus: Bus) -> None:
    search = await opened(bus)

    async def planned() -> bool:
        return any(isinstance(envelope.event(), NodePlanned) for _, envelope in await bus.history(SESSION))

    planner = Worker(Planner(), bus, given.pool().name, Histories(bus))
    async with running_beside(planner.run(), "planner"):
        assert await eventually(planned, True)
    for presence in workers(set(ROLES) - {"planner", "profiler", "distiller"}):
        await bus.heartbeat(presence)
    sentence = await within(ends(search))
    assert "has no planner and no profiler to bring it to its end" in sentence
    assert search.graph.nodes, "what was planned is still there to go on with"


def test_a_session_is_not_stuck_while_somebody_works_on_it_or_only_its_lesson_is_missing() -> None:
    pool = given.pool().name
    assert stuck_without([], pool, SESSION) == list(ROLES)
    elsewhere = stuck_without(workers(["profiler"], "other-abcde/n001"), pool, SESSION)
    assert elsewhere == [role for role in ROLES if role != "profiler"]
    assert stuck_without(workers(["profiler"], f"{SESSION}/n001", "elsewhere"), pool, SESSION) == list(ROLES)
    assert stuck_without(workers(["profiler"], f"{SESSION}/n001"), pool, SESSION) == []
    assert stuck_without(workers(set(ROLES) - {"distiller"}), pool, SESSION) == []
