"""``kernelswarm record``: the recorder of a cluster, alone."""

import asyncio
from contextlib import AsyncExitStack

from ..agents.home import kernelswarm_home
from ..bus import Bus
from ..schemas import InputError
from ..store import log_path, recording
from .interrupts import Interrupts, run_interruptible
from .options import Cluster
from .terminal import err

EXAMPLES = ("kernelswarm record --nats nats://10.0.0.1:4222",)


def record(nats: Cluster = "") -> int:
    """Write every event of a cluster into the log under KERNELSWARM_HOME, and answer `sql` from any host."""
    if not nats:
        raise InputError("record needs --nats URL: a search without a cluster records by itself")
    home = kernelswarm_home()

    async def run(interrupts: Interrupts) -> None:
        stopped = asyncio.Event()
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(await Bus.connect(nats, name="kernelswarm record"))
            await stack.enter_async_context(recording(home, bus))
            err.print(f"recording {bus.url} into {log_path(home)}; Ctrl-C leaves", markup=False)
            with interrupts.politely(stopped.set):
                await stopped.wait()

    run_interruptible(run)
    return 0
