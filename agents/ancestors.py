"""Where a fork's past is read: in the stream where it is whole there, else in the log."""

from collections.abc import Sequence
from pathlib import Path

from ..bus import Bus
from ..graph.inheritance import ReadSession
from ..schemas import Envelope, SessionOpened, event_tag
from ..store import UnknownSession, read_recorded

_FIRST = event_tag(SessionOpened)


def reader(bus: Bus, home: Path | None) -> ReadSession:
    """Reads a session over ``bus``; ``home`` is where the log may lie (None: the stream alone is read).

    A parent may be closed, running, or imported: then its events are in the log and in no stream. The stream drops its
    oldest events first, so what has its opening event there is whole.
    """

    async def read(session: str) -> Sequence[Envelope]:
        streamed = [envelope for _, envelope in await bus.history(session)]
        if home is None or (streamed and streamed[0].tag == _FIRST):
            return streamed
        try:
            return [envelope for _, envelope in await read_recorded(home, session, bus=bus)]
        except UnknownSession:
            return streamed

    return read
