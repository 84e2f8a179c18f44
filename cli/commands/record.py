"""``kernelswarm record``: the recorder of a cluster, alone."""

import asyncio
from contextlib import AsyncExitStack

from ...schemas import InputError
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import Interrupts, run_interruptible
from ...store import log_path, recording
from ..connecting import joined
from ..display.terminal import err
from ..options import Cluster

EXAMPLES = ("kernelswarm record --nats nats://10.0.0.1:4222",)


def record(nats: Cluster = "") -> int:
    """Write every event of a cluster into the log under KERNELSWARM_HOME, and answer `sql` from any host."""
    if not nats:
        raise InputError("record needs --nats URL: a search without a cluster records by itself")
    home = kernelswarm_home()

    async def run(interrupts: Interrupts) -> None:
        stopped = asyncio.Event()
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(await joined(nats, name="kernelswarm record"))
            recorder = await stack.enter_async_context(recording(home, bus))
            with interrupts.politely(stopped.set):
                events = [asyncio.create_task(event.wait()) for event in (recorder.started, stopped)]
                await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
                if recorder.started.is_set():  # not before: whoever reads this may count on it
                    err.print(f"recording {bus.url} into {log_path(home)}; Ctrl-C leaves", markup=False)
                await stopped.wait()

    run_interruptible(run)
    return 0
