"""``kernelswarm record``: the recorder of a cluster, alone."""

import asyncio
import signal
from contextlib import AsyncExitStack

from ..agents.home import kernelswarm_home
from ..bus import Bus
from ..schemas import InputError
from ..store import log_path, recording
from .options import Nats
from .terminal import err

EXAMPLES = ("kernelswarm record --nats nats://10.0.0.1:4222",)


def record(nats: Nats = "") -> int:
    """Write every event of a cluster into the log under KERNELSWARM_HOME, and answer `sql` from any host."""
    if not nats:
        raise InputError("record needs --nats URL: a search without a cluster records by itself")
    home = kernelswarm_home()

    async def run() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(await Bus.connect(nats, name="kernelswarm record"))
            await stack.enter_async_context(recording(home, bus))
            err.print(f"recording {bus.url} into {log_path(home)}; Ctrl-C leaves", markup=False)
            await stopped.wait()

    asyncio.run(run())
    return 0
