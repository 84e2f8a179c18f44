"""The process of a user who opens a session on a cluster (KERNELSWARM_NATS) as a file says, and follows it.

The problem was validated before, so it needs no device. Started again with the same configuration it
opens nothing new: the session's first event has the same id.
"""

import asyncio
import os
import sys
from pathlib import Path

from kernelswarm.bus import Bus
from kernelswarm.schemas import decode
from kernelswarm.sessions.search import Search
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.sessions.session import open_session

from .problem import PROBLEM
from .run_configuration import RunConfiguration


async def submit(url: str, configuration: RunConfiguration) -> None:
    """Open the session, and follow it to its close."""
    options = SearchOptions(
        budget=len(configuration.candidates),
        seed=configuration.seed,
        synthesizer="given",
        candidates=configuration.candidates,
    )
    async with await Bus.connect(url, name="faults submitter") as bus:
        seq, opened = await open_session(
            bus,
            configuration.session,
            PROBLEM,
            configuration.facts,
            configuration.pool,
            configuration.hardware,
            options,
        )
        search = Search(configuration.session, configuration.pool.name, bus, None, opened.id, seq - 1)
        async for _ in search.events():
            pass
        search.result()


if __name__ == "__main__":
    asyncio.run(submit(os.environ["KERNELSWARM_NATS"], decode(Path(sys.argv[1]).read_bytes(), RunConfiguration)))
