"""The bus of a session: a cluster, or a server of this process's own; somebody records what is on it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import structlog

from ..bus import Bus, NobodyServes, embedded
from ..schemas import BusError, encode
from ..store import recording
from ..store.query import Query

log = structlog.get_logger(__name__)


class Joined(NamedTuple):
    """A bus, and where it is recorded."""

    bus: Bus
    recorded_here: bool
    """Whether the log of our own home gets the events; else a recorder elsewhere on the cluster does."""


@asynccontextmanager
async def joined_bus(
    home: Path, nats: str = "", on_notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[Joined]:
    """A connection to the cluster at ``nats``, or to the embedded server of ``home``; somebody records.

    Where no recorder answers on a cluster, and always on a server of our own, this process records into the log of
    ``home``.

    Raises:
        BusError: the cluster cannot be reached.
        InputError: the home cannot be written.
    """
    async with AsyncExitStack() as stack:
        url = nats or await stack.enter_async_context(embedded(home, on_wait=on_notice))
        bus = await stack.enter_async_context(await Bus.connect(url, name="kernelswarm"))
        here = not nats or not await _recorded_elsewhere(bus)
        if here:
            await stack.enter_async_context(recording(home, bus))
        yield Joined(bus, here)


async def _recorded_elsewhere(bus: Bus) -> bool:
    try:
        await bus.request("sql", encode(Query(sql="SELECT 1")), timeout=5.0)
    except NobodyServes:
        return False
    except BusError as error:
        log.warning("the recorder is there, and slow to answer", error=str(error))
    return True
