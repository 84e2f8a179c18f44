"""A problem that was under way when an earlier run ended: its session goes on, or is read if it has ended since."""

import time

from ...bus import Bus
from ...sessions.recorded_session import read_session
from ...sessions.resume import AlreadyClosed, resuming
from ...store import UnknownSession
from . import reading
from .judging import first, follow
from .progress import Spectator
from .row import Row
from .run_configuration import RunConfiguration


async def resume(configuration: RunConfiguration, row: Row, spectator: Spectator) -> Row | None:
    """``row`` brought to its end; None if its session cannot go on, which is said: the problem is done anew."""
    try:
        return await _to_its_end(configuration, row, spectator)
    except UnknownSession:
        return None  # killed before it was opened
    except Exception as error:  # noqa: BLE001
        # Not the run's end: doing the problem anew says soon enough whether it is the bus, the log or this session.
        spectator.say(f"{row.problem}: done anew, session {row.session} cannot go on: {first(error)}")
        return None


async def _to_its_end(configuration: RunConfiguration, row: Row, spectator: Spectator) -> Row | None:
    began = time.monotonic()
    try:
        async with resuming(
            row.session,
            home=configuration.home,
            nats=configuration.nats,
            roles=configuration.roles,
            on_notice=spectator.notice,
        ) as search:
            spectator.say(f"{row.problem}: going on with session {row.session}")
            await follow(search, configuration.minutes_per_problem * 60, spectator)
        return reading.row_of(row, search.graph, time.monotonic() - began, configuration.benchmark)
    except AlreadyClosed:
        return await _recorded(configuration, row)


async def _recorded(configuration: RunConfiguration, row: Row) -> Row | None:
    """The row of a session that closed just before the run was killed, or that somebody resumed since."""
    if configuration.nats:
        async with await Bus.connect(configuration.nats, name="kernelswarm query") as bus:
            recorded = await read_session(configuration.home, row.session, bus=bus)
    else:
        recorded = await read_session(configuration.home, row.session)
    graph = recorded.graph()
    if graph.closed is None or graph.closed.reason == "interrupted":
        return None  # somebody had enough of it: that says nothing of the problem
    times = [envelope.at_ns for _, envelope in recorded.events]
    return reading.row_of(row, graph, (max(times) - min(times)) / 1e9, configuration.benchmark)
