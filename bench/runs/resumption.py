"""A problem that was under way when an earlier run ended: its session goes on, or is read if it has ended since."""

import time

from ...sessions.recorded_session import read_session
from ...sessions.resume import AlreadyClosed, resuming
from ...sessions.spectator import Spectator
from ...store import UnknownSession
from . import reading
from .judging import Bench, first, follow
from .row import Row


async def resume(on: Bench, row: Row, spectator: Spectator) -> Row | None:
    """``row`` brought to its end; None if its session cannot go on, which is said: the problem is done anew."""
    try:
        return await _to_its_end(on, row, spectator)
    except UnknownSession:
        return None  # killed before it was opened
    except Exception as error:  # noqa: BLE001
        # Not the run's end: doing the problem anew says soon enough whether it is the bus, the log or this session.
        spectator.say(f"{row.problem}: done anew, session {row.session} cannot go on: {first(error)}")
        return None


async def _to_its_end(on: Bench, row: Row, spectator: Spectator) -> Row | None:
    configuration = on.configuration
    began = time.monotonic()
    try:
        async with resuming(
            row.session,
            home=configuration.home,
            nats=configuration.nats,
            roles=configuration.roles,
            on=(on.joined, on.device),
            on_notice=spectator.notice,
        ) as search:
            spectator.say(f"{row.problem}: going on with session {row.session}")
            await follow(search, configuration.minutes_per_problem * 60, spectator)
        return reading.row_of(row, search.graph, time.monotonic() - began, configuration.benchmark)
    except AlreadyClosed:
        return await _recorded(on, row)


async def _recorded(on: Bench, row: Row) -> Row | None:
    """The row of a session that closed just before the run was killed, or that somebody resumed since."""
    bus, recorded_here = on.joined
    recorded = await read_session(on.configuration.home, row.session, bus=None if recorded_here else bus)
    graph = recorded.graph()
    if graph.closed is None or graph.closed.reason == "interrupted":
        return None  # somebody had enough of it: that says nothing of the problem
    times = [envelope.at_ns for _, envelope in recorded.events]
    return reading.row_of(row, graph, (max(times) - min(times)) / 1e9, on.configuration.benchmark)
