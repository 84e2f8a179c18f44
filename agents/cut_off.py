"""What a step had asked models when it was cancelled, or broke: it has no answer to say so, and it was paid for."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from ..bus import Bus
from ..schemas import BusError, ModelCalled, seal
from .runtime import Work

PATIENCE_S = 5.0
"""How long a process that ends waits for the bus to take it."""


async def publish_cut_off(bus: Bus, work: Work, agent: str, calls: Sequence[ModelCalled]) -> None:
    """Publish ``calls`` of a step without an answer, so that the session's spending holds them.

    They are no part of the step's answer, which whoever takes it over gives anew: their cause names the step, and
    when it was cut off. A server that is away does not hold a process up that is to end.
    """
    now = time.time_ns()
    envelopes = [
        seal(
            call,
            session=work.envelope.session,
            pool=work.envelope.pool,
            node=work.envelope.node,
            cause=f"{work.envelope.id}/{now}",
            agent=agent,
            worker=agent,
            at_ns=now,
            index=index,
        )
        for index, call in enumerate(calls)
    ]
    with suppress(BusError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            await bus.publish_many(envelopes)
