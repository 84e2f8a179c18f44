"""A connection for questions alone, if there is somebody to ask."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import Bus


@asynccontextmanager
async def asked_bus(nats: str) -> AsyncIterator["Bus | None"]:
    """The cluster at ``nats`` for questions; None without one: then the store finds out who has the log.

    Raises:
        BusError: the cluster cannot be reached.
    """
    if not nats:
        yield None
        return
    from .client import Bus  # a tenth of a second of imports, for nothing where the log is a file

    async with await Bus.connect(nats, name="kernelswarm query") as bus:
        yield bus
