"""One machine without a cluster: a search that is killed with everything it runs, and resumed.

Run as a module it is the process of a user who searches: KERNELSWARM_HOME says where, the argument what.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kernelswarm.bus import Bus, embedded, running
from kernelswarm.schemas import BusError, decode
from kernelswarm.sessions.search import searching
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.store import recording

from .audit import Chain, audit
from .plans import RoundPlan
from .problem import POOL, PROBLEM
from .process import Process
from .run_configuration import RunConfiguration

FIRST_EVENT_S = 120.0
RESUMED_S = 180.0
_LOOK_AGAIN_S = 0.05


async def killed_and_resumed(home: Path, configuration: Path, plan: RoundPlan) -> tuple[list[str], int]:
    """Kill a search of ``configuration`` after so many events as the plan's first fault says, resume it, and audit it.

    Returns:
        What was found wrong, and how many events the session had when it was killed.
    """
    (home / "logs").mkdir(parents=True)
    environment = {**os.environ, "KERNELSWARM_HOME": str(home)}
    environment.pop("KERNELSWARM_NATS", None)
    search = Process(
        "alone", ("-m", f"{__package__}.alone", str(configuration)), environment, home / "logs" / "alone.log"
    )
    await search.start()
    try:
        session, events = await _when(home, search, plan.injections[0].after)
        await asyncio.sleep(plan.injections[0].delay_s)
    finally:
        await search.kill()
    if not session:
        return [f"the search ended with {search.status} before it had said anything: see {home / 'logs'}"], 0
    command = ("-m", "kernelswarm.cli", "resume", session)
    resume = Process("resume", command, environment, home / "logs" / "resume.log")
    await resume.start()
    try:
        async with asyncio.timeout(RESUMED_S):
            await resume.wait()
    except TimeoutError:
        return [f"the resumed session did not end within {RESUMED_S:.0f} s"], events
    finally:
        await resume.kill()
    # The session may have closed in the moment before it was killed: then there is nothing to resume.
    faults = [] if resume.status in (0, 1) else [f"resume ended with {resume.status}: see {home / 'logs'}"]
    async with _recorded(home) as bus:
        return faults + await audit(home, bus, session, plan, Chain()), events


async def _when(home: Path, search: Process, after: int) -> tuple[str, int]:
    """Wait for so many events; the session, and how many there are."""
    async with asyncio.timeout(FIRST_EVENT_S):
        while search.alive:
            with contextlib.suppress(BusError):
                url = running(home)
                if url is not None:
                    async with await Bus.connect(url, name="faults") as bus, bus.tail() as tail:
                        count = 0
                        async for _, envelope in tail:
                            count += 1
                            if count >= after:
                                return envelope.session, count
            await asyncio.sleep(_LOOK_AGAIN_S)  # its server has no event to wait for
    return "", 0


@asynccontextmanager
async def _recorded(home: Path) -> AsyncIterator[Bus]:
    async with (
        embedded(home) as url,
        await Bus.connect(url, name="faults audit") as bus,
        recording(home, bus) as recorder,
    ):
        await recorder.started.wait()
        yield bus


async def _search(home: Path, configuration: RunConfiguration) -> None:
    options = SearchOptions(
        budget=len(configuration.candidates),
        seed=configuration.seed,
        synthesizer="given",
        candidates=configuration.candidates,
    )
    async with searching(PROBLEM, POOL, options, home=home) as search:
        async for _ in search.events():
            pass


if __name__ == "__main__":
    asyncio.run(_search(Path(os.environ["KERNELSWARM_HOME"]), decode(Path(sys.argv[1]).read_bytes(), RunConfiguration)))
