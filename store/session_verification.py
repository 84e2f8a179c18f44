"""Whether what is shown of a session is what was written: its events, and what stands in typed columns beside them."""

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import InputError, LogCorrupted
from .errors import LogBusyError
from .location import log_path
from .log import Log
from .query import run_sql
from .recorded import read_recorded
from .shared_log import log_to_read
from .snapshot import opened_if_free
from .typed import NAMES, first_wrong
from .verify import VerifyResult, not_as_told

if TYPE_CHECKING:
    from ..bus import Bus

SMALL = 10_000
"""Events of a log that is verified beside a question: half a second, on a machine on which a command takes one."""

_TYPED = f"""
    WITH events AS MATERIALIZED (SELECT * FROM main.events WHERE session = $session)
    SELECT name, seq FROM ({
    " UNION ALL ".join(
        f"SELECT '{name}' AS name, seq FROM ({first_wrong(name, 'WHERE session = $session')})" for name in NAMES
    )
})
    WHERE seq IS NOT NULL ORDER BY seq LIMIT 1"""
"""The first event of a session about which a table is wrong."""


async def check_session(home: Path, session: str, *, bus: "Bus | None" = None) -> None:
    """Refuse to show ``session`` if it is not what was written: what the views say rests on this.

    Raises:
        UnknownSession: the log has no such session.
        LogCorrupted: an event of it, or a typed column beside it, is not what was written; the first event is named.
        StoreError, BusError: as :func:`run_sql`.
    """
    events = await read_recorded(home, session, bus=bus, verify=True, to_end=False)
    try:
        wrong = await run_sql(home, _TYPED, params={"session": session}, bus=bus)
    except InputError as error:
        raise LogCorrupted(
            f"The log is damaged beside its events: the tables made of them are not those that are made here "
            f"({str(error).splitlines()[0]}); `kernelswarm log backup FILE` makes a whole log of the events."
        ) from error
    for name, seq in wrong.rows:
        id = next((envelope.id for place, envelope in events if place == seq), "")
        not_as_told(name, seq, id).check()


async def check_usable(home: Path) -> None:
    """Refuse a log that is there and cannot be read, before anything is begun that is to be written into it.

    Raises:
        StoreError: as :meth:`Log.open`. A log that somebody has open is usable.
    """
    path = log_path(home)
    if path.exists() and (log := await opened_if_free(path)) is not None:
        log.close()


async def verify_small(home: Path, *, most: int = SMALL) -> VerifyResult | None:
    """Verify the log of ``home`` if that costs little: nobody has it, and it holds at most ``most`` events; else None.

    Where somebody has it a search may be running, and whoever is being measured needs the cores.
    """
    path = log_path(home)
    if not path.exists() or Log.opened_here(path) is not None:
        return None
    with contextlib.suppress(LogBusyError):
        # To follow the chain takes a while, and whoever asks has an event loop.
        return await asyncio.to_thread(_verify_small, path, most)
    return None


def _verify_small(path: Path, most: int) -> VerifyResult | None:
    with log_to_read(path) as log:
        return log.verify() if len(log) <= most else None
