"""Events as lines, as they come."""

import asyncio
import datetime
from contextlib import aclosing
from pathlib import Path

from ... import store
from ...bus import asked_bus
from ...schemas import Envelope, encode
from ...sessions.interrupts import Interrupts, run_interruptible
from ..display.terminal import write
from ..reading import check_known


def follow(home: Path, nats: str, *, session: str, kind: str, last: int, is_live: bool, as_json: bool) -> None:
    """Print the latest events, and with ``is_live`` those to come until Ctrl-C."""

    async def show() -> None:
        async with (
            asked_bus(nats) as bus,
            aclosing(store.tail_log(home, bus=bus, session=session, kind=kind, last=last, follow=is_live)) as events,
        ):
            shown = False
            async for seq, envelope in events:
                write(encode(envelope).decode() + "\n" if as_json else line(seq, envelope))
                shown = True
            if session and not shown:
                await check_known(home, session, bus)

    async def until_interrupted(interrupts: Interrupts) -> None:
        showing = asyncio.ensure_future(show())

        def stop() -> None:
            showing.cancel()

        with interrupts.politely(stop):
            await asyncio.wait([showing])
        if not showing.cancelled():
            showing.result()

    run_interruptible(until_interrupted)


def line(seq: int, envelope: Envelope) -> str:
    """``     12  2026-11-21 10:07:54  mapid-7kq2m  n003  candidate.profiled.v1  profiler``."""
    at = datetime.datetime.fromtimestamp(envelope.at_ns / 1e9, datetime.UTC)
    return (
        f"{seq:>7}  {at:%Y-%m-%d %H:%M:%S}  {envelope.session}  {envelope.node or '-':<5}  {envelope.tag:<30}  "
        f"{envelope.agent}\n"
    )
