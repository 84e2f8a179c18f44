"""A connection for questions alone, if there is somebody to ask."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .client import Bus


@asynccontextmanager
async def asked_bus(nats: str) -> AsyncIterator[Bus | None]:
    """The cluster at ``nats`` for questions; None without one: then the store finds out who has the log.

    Raises:
        BusError: the cluster cannot be reached.
    """
    if not nats:
        yield None
        return
    async with await Bus.connect(nats, name="kernelswarm query") as bus:
        yield bus
