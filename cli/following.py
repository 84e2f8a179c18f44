"""Follows a search to its close, and closes it when the user has had enough."""

import asyncio

from ..schemas import SessionClosed
from ..sessions.search import Search
from .display.live import Display
from .interrupts import Interrupts


async def follow(search: Search, display: Display, interrupts: Interrupts) -> None:
    """Show every event of ``search``. The first Ctrl-C closes the session, the second gives up waiting for that."""
    display.opened(search)
    search.notify_of_others(display.say)
    stop_tasks: set[asyncio.Task[None]] = set()

    def stop() -> None:
        closed = search.graph.closed is not None
        display.notice("leaving" if closed else "closing the session (Ctrl-C again to leave at once)")
        stop_tasks.add(asyncio.ensure_future(search.stop("interrupted")))

    watching_workers = asyncio.create_task(search.watch_workers(display.waiting), name="worker-availability")
    try:
        with interrupts.politely(stop):
            async for envelope, event in search.events():
                display.show(envelope, event)
                if isinstance(event, SessionClosed) and search.awaits_baselines:
                    display.notice("nothing was timed: waiting for the baselines (Ctrl-C to leave)")
            if search.awaits_baselines and not stop_tasks:
                display.notice("ended without the baselines: they were not timed in time")
    finally:
        watching_workers.cancel()
        await asyncio.wait([watching_workers])


def is_interrupted(search: Search) -> bool:
    """Whether the session was closed because the user had enough."""
    return search.graph.closed is not None and search.graph.closed.reason == "interrupted"
