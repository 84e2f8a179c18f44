"""The public API's way back into a session: replay it, go on with it, hold it against another."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from ..agents.registry import ALL_ROLES
from ..bus import asked_bus
from ..graph.tasks import INTERRUPTED
from ..sessions.diff import SessionDiff, compare
from ..sessions.home import kernelswarm_home
from ..sessions.re_evaluation import ReEvaluation, re_evaluate_on
from ..sessions.recorded_session import RecordedSession, read_session
from ..sessions.replay import Replay, ReplayReport
from ..sessions.replay import replay as replay_history
from ..sessions.replay_authors import replay_authors, with_authors
from ..sessions.results import SearchResult
from ..sessions.resume import CLOSING_ROLES, resuming
from .questions import blocking


def replay(session: str, *, to: str = "", nats: str = "", home: str | Path | None = None) -> ReplayReport:
    """Feed a recorded session to a fresh planner, analyst and distiller; every output must be the recorded one.

    The conversations of authors that ask models are had again with the recorded answers; the report says whether this
    version words its requests the same.

    Needs no device, compiler, model or network (but for ``nats``).

    Args:
        session: its id.
        to: stop at the event with this id.
        nats: URL of the cluster whose recorder has the log; without it the log of this machine.
        home: as for :func:`kernelswarm.optimize`.

    Raises:
        LogCorrupted: the log is not what was written; the first bad event is named.
        ReplayDivergence: the first difference; ``recorded`` and ``replayed`` hold both sides.
        InputError: there is no such session.
        KernelswarmError: it has no event ``to``.
    """

    async def run() -> ReplayReport:
        recorded = await _read(home, session, nats)
        report = replay_history(session, recorded.events, to, recorded.before)
        return with_authors(report, await replay_authors(recorded, to))

    return blocking(run())


def re_evaluate(
    session: str,
    *,
    pool: str = "",
    on_notice: Callable[[str], None] = lambda _: None,
    nats: str = "",
    home: str | Path | None = None,
) -> ReEvaluation:
    """Replay with live effects: evaluate the session's correct candidates again, and hold the ranking against it.

    Args:
        session: its id.
        pool: where; by default the session's own pool.
        on_notice: told of every candidate, in a few words.
        nats: URL of the cluster whose recorder has the log.
        home: as for :func:`kernelswarm.optimize`.

    Raises:
        LogCorrupted: the log is not what was written; the first bad event is named.
        ReplayDivergence: the recorded part does not replay.
        InputError: there is no such session or pool, or the problem cannot be searched there.
        KernelswarmError: the session has no correct candidate.
    """
    root = kernelswarm_home(home)

    async def run() -> ReEvaluation:
        recorded = await _read(root, session, nats)
        replaying = Replay(session, recorded.before)
        for seq, envelope in recorded.events:
            replaying.feed(seq, envelope, envelope.event())
        replaying.finish()
        return await re_evaluate_on(
            replaying.graph, pool, root, on_judged=lambda candidate: on_notice(f"{candidate.node}: {candidate.verdict}")
        )

    return blocking(run())


def resume(
    session: str,
    *,
    close: bool = False,
    on_notice: Callable[[str], None] = lambda _: None,
    nats: str = "",
    home: str | Path | None = None,
) -> SearchResult:
    """Go on with an open session where it was; blocks until it is closed.

    With ``close`` it is closed with what it has: nothing is run, its device need not be here.

    Raises:
        InputError: there is no such session.
        KernelswarmError: it is closed, or this version would decide otherwise than was recorded.
        BusError: the cluster cannot be reached.
    """

    async def run() -> SearchResult:
        place, roles = kernelswarm_home(home), CLOSING_ROLES if close else ALL_ROLES
        async with resuming(session, home=place, nats=nats, roles=roles, on_notice=on_notice) as running:
            if close:
                await running.stop(INTERRUPTED)
            async for _ in running.events():
                pass
            return running.result()

    return blocking(run())


def diff(session_a: str, session_b: str, *, nats: str = "", home: str | Path | None = None) -> SessionDiff:
    """Hold two sessions against each other: what was asked, where their decisions part, what each found and how soon.

    Raises:
        InputError: there is no such session.
        LogCorrupted: one of them is not what was written; the first bad event is named.
    """

    async def run() -> SessionDiff:
        a, b = [await _read(home, session, nats, to_end=False) for session in (session_a, session_b)]
        return await asyncio.to_thread(compare, a, b)

    return blocking(run())


async def _read(home: str | Path | None, session: str, nats: str, *, to_end: bool = True) -> RecordedSession:
    async with asked_bus(nats) as bus:
        return await read_session(kernelswarm_home(home), session, bus=bus, verify=True, to_end=to_end)


__all__ = ["diff", "re_evaluate", "replay", "resume"]
