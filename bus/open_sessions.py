"""The sessions that are open, as far as this process has heard."""

import asyncio
import contextlib

from ..schemas import BusError, Event, SessionClosed, SessionOpened, event_tag
from .link import Link
from .reader import Reader
from .subjects import role_filters, session_of


class OpenSessionIndex:
    """Follows openings and closings of a pool by their headers alone; workers of a connection share it."""

    def __init__(self, link: Link, pool: str, kind: type[Event] = SessionOpened) -> None:
        """Of the pool's sessions it has those in which a ``kind`` was said."""
        self._reader = Reader(link, role_filters(pool, [kind, SessionClosed]), 0, headers_only=True)
        self._open: dict[str, None] = {}
        self._closed: set[str] = set()
        self._closing = event_tag(SessionClosed).replace(".", "-")
        self._starting = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None

    async def sessions(self, *, follow: bool = True) -> list[str]:
        """Sessions that were opened and not closed, the newest last; ``follow``: be up to date when asked again.

        Raises:
            BusError: the server stays away, or refuses.
        """
        async with self._starting:
            if self._following is None:
                while await self._next(live=False):
                    pass
            if self._following is None and follow:
                self._following = asyncio.create_task(self._follow(), name="open-session-index")
        return list(self._open)

    async def aclose(self) -> None:
        """Stop following."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        await self._reader.stop()

    async def _follow(self) -> None:
        with contextlib.suppress(BusError):  # the bus is closed or lost: whoever waits for work hears it, too
            while await self._next(live=True):
                pass

    async def _next(self, *, live: bool) -> bool:
        message = await self._reader.message(live=live)
        if message is None:
            return False
        session, tag = session_of(message.subject)
        if tag == self._closing:
            self._open.pop(session, None)
            self._closed.add(session)
        elif session not in self._closed:  # else a copy of its opening, which the stream may store days later
            self._open[session] = None
        return True
