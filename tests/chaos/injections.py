"""How each kind of fault is done and mended. Adding one means adding a function and naming it here and in plans."""

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from kernelswarm.store import log_path

from .copies import publish_copy
from .fleet import Fleet
from .leftover_processes import descendants
from .plans import Injection, RoundPlan
from .process import Process

_SWALLOWED_S = 0.3
_LEAVING_S = 3.0
"""How long a recorder that has met a full disk may take to end."""

Done = str
"""What was done to whom, for people."""


async def inject(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    """Break something, wait, mend it."""
    return await INJECTIONS[injection.kind](fleet, plan, injection)


async def _killed(process: Process, for_s: float, *, again: bool = True) -> Done:
    async with process.turn:
        await process.kill()
        await asyncio.sleep(for_s)
        if again:
            await process.start()
    return process.name


async def _agents(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    return await _killed(fleet.some("agents", injection.draw), injection.for_s)


async def _hands(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    return await _killed(fleet.some("hands", injection.draw), injection.for_s)


async def _recorder(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    return await _killed(fleet.recorder, injection.for_s)


async def _submitter(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    return await _killed(fleet.submitter, 0.0, again=False)


async def _candidate(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    hands = fleet.some("hands", injection.draw)
    below = descendants(hands.pid)
    if not below:
        return f"nothing runs below {hands.name}"
    victim = below[injection.draw // 7 % len(below)]
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    return f"process {victim} of {hands.name}"


async def _server(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    async with fleet.server_turn:
        os.kill(fleet.server.pid, signal.SIGKILL)
        await fleet.server.ended()
        await asyncio.sleep(injection.for_s)
        await fleet.server.start()
    return "server"


async def _restart(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    async with fleet.server_turn:
        await fleet.server.stop()
        await asyncio.sleep(injection.for_s)
        await fleet.server.start()
    return "server"


async def _outage(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(fleet.server_turn)
        for _, process in sorted(fleet.processes.items()):
            await stack.enter_async_context(process.turn)
        os.kill(fleet.server.pid, signal.SIGKILL)
        for process in fleet.processes.values():
            process.send(signal.SIGKILL)
        for process in fleet.processes.values():
            await process.wait()
        await fleet.server.ended()
        await asyncio.sleep(injection.for_s)
        await fleet.server.start()
        for process in fleet.processes.values():
            if process is not fleet.submitter:
                await process.start()
    return "everything"


async def _pause(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    names = [None, *sorted(fleet.processes)]
    name = names[injection.draw % len(names)]
    turn = fleet.processes[name].turn if name else fleet.server_turn
    async with turn:
        pid = fleet.processes[name].pid if name else fleet.server.pid
        if name and not fleet.processes[name].alive:
            return f"{name} had ended"
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(injection.for_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return name or "server"


async def _disk(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    """No file of the recorder may grow: the kernel refuses as it does on a full disk, and nobody else is hit."""
    recorder = fleet.recorder
    async with recorder.turn:
        if not recorder.alive:
            return "the recorder was away"
        written = log_path(fleet.home).with_suffix(".duckdb.wal")
        size = written.stat().st_size if written.exists() else 4096
        _limit_files(recorder, size)
        await asyncio.sleep(injection.for_s)
        if recorder.alive:
            _limit_files(recorder, resource.RLIM_INFINITY)
            with contextlib.suppress(TimeoutError):  # it may be on its way out
                async with asyncio.timeout(_LEAVING_S):
                    await recorder.wait()
        # One that noticed has ended with a sentence; the operator freed some space and starts it again.
        await recorder.start()
    return "recorder"


def _limit_files(process: Process, size: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def _store(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    async with fleet.server_turn:
        fleet.disk.fill()
        try:
            await asyncio.sleep(injection.for_s)
        finally:
            fleet.disk.free()
    return "server"


async def _away(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    """The round itself keeps the recorder away from before the session opens until after it closes."""
    return "recorder"


async def _duplicate(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    history = await fleet.bus.history(plan.session)
    if not history:
        return "nothing was said yet"
    seq, envelope = history[injection.draw % len(history)]
    await publish_copy(fleet.bus, envelope)
    return f"event {seq}, {envelope.tag}"


async def _cut(fleet: Fleet, plan: RoundPlan, injection: Injection) -> Done:
    names = sorted(fleet.wires)
    name = names[injection.draw % len(names)]
    wire = fleet.wires[name]
    wire.swallow()
    await asyncio.sleep(min(injection.for_s, _SWALLOWED_S))
    wire.cut()
    await asyncio.sleep(injection.for_s)
    wire.heal()
    return name


INJECTIONS: dict[str, Callable[[Fleet, RoundPlan, Injection], Awaitable[Done]]] = {
    "agents": _agents,
    "hands": _hands,
    "candidate": _candidate,
    "recorder": _recorder,
    "server": _server,
    "submitter": _submitter,
    "outage": _outage,
    "restart": _restart,
    "pause": _pause,
    "away": _away,
    "disk": _disk,
    "store": _store,
    "duplicate": _duplicate,
    "cut": _cut,
}
