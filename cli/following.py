"""Follows a search to its close, and closes it when the user has had enough."""

import asyncio

from ..graph.session_graph import SearchGraph
from ..hardware.processes.machine_load import load_text
from ..schemas import Envelope, SessionClosed, SessionOpened
from ..sessions.interrupts import Interrupts
from ..sessions.search import BASELINES_WAIT_S, Search
from ..sessions.spectator import Spectator


async def follow(search: Search, display: Spectator, interrupts: Interrupts) -> None:
    """Show every event of ``search``. The first Ctrl-C closes the session, the second gives up waiting for that.

    Raises:
        asyncio.CancelledError: it was given up, and the session stays open. One that is closed has a result to write.
    """
    display.opened(search)
    search.notify_of_others(display.say)
    watching_workers = asyncio.create_task(search.watch_workers(display.waiting), name="worker-availability")
    try:
        with interrupts.closing(search, display.notice) as stop_tasks:
            async for envelope, event in search.events():
                display.show(envelope, event)
                if isinstance(event, SessionClosed) and search.awaits_baselines:
                    display.notice("nothing was timed: waiting for the baselines (Ctrl-C to leave)")
                if isinstance(event, SessionClosed) and (text := spent_text(search.graph, envelope)):
                    display.say(text)
            if search.graph.baselines is None and search.awaits_baselines and not stop_tasks:
                display.say(without_baselines(search.graph.opened, search.seconds))
    except asyncio.CancelledError:
        if not await search.is_closed_after_all():
            display.say(f"session {search.session} stays open: kernelswarm resume {search.session} goes on with it")
            raise
    finally:
        watching_workers.cancel()
        await asyncio.wait([watching_workers])


def spent_text(graph: SearchGraph, end: Envelope) -> str:
    """Where the minutes of a search went in which nothing was judged; ``end`` is its close. Empty for any other."""
    opened, closed = graph.opened, graph.closed
    if opened is None or opened.minutes is None or closed is None or closed.reason != "minutes" or closed.candidates:
        return ""
    session_s = (end.at_ns - graph.opened_ns) / 1e9
    before_s = 60 * opened.minutes - session_s
    if before_s < 0:
        return ""  # it was resumed
    awaited = "the first verification" if graph.baselines is not None else "the baselines and the first verification"
    return f"{before_s:.0f} s went into validation, {session_s:.0f} s into {awaited}{load_text()}"


def without_baselines(opened: SessionOpened | None, seconds: float) -> str:
    """That the baselines were not timed before a search ended, ``seconds`` after its opening, and what helps."""
    if opened is not None and opened.minutes is not None:
        within, more = f"{opened.spent_s + seconds:.0f} s", f"give it more (--minutes {2 * opened.minutes:g})"
    else:
        within, more = f"{BASELINES_WAIT_S:.0f} s after its end", "run it again when less else runs here"
    return f"ended without the baselines: they were not timed within {within}{load_text()}; {more}"


def is_interrupted(search: Search) -> bool:
    """Whether the session was closed because the user had enough."""
    return search.graph.closed is not None and search.graph.closed.reason == "interrupted"
