"""Profiles a candidate on the GPU with whatever this machine permits, into one result."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec.structs import replace

from ...schemas import DeviceProfile, InputError, ProblemFormat
from ..machine.lease import Lease
from ..processes.arguments import Values
from . import ncu, proton
from .messages import Inspect
from .reading import NAMES, log_of, put_together
from .standby import NeverStarted, NothingSeen, Setting, Standby

START_SECONDS = 120.0
"""How long importing torch may take on a busy machine."""
ALWAYS = ("trace", "counters")
"""What every candidate is profiled with, where it is permitted; scopes only where the candidate has some."""

PROBE = Inspect(
    source='import torch\n\n\ndef kernel():\n    return torch.ones(1 << 22, device="cuda").sum()\n',
    format=ProblemFormat.function,
    inputs=(Values(items=(), size=0),),
)
"""A candidate of our own: what a profiler does not see of it, it sees of none."""

ProfilingPasses = dict[str, Standby]


class Profilers:
    """The GPU's profilers on this machine. What one cannot do here is found out once and done without."""

    def __init__(self, setting: Setting, counters: Lease | None = None) -> None:
        """Starts nothing yet.

        ``counters`` is the lease on the device's counters: one process at a time has them, of all that profile there.
        """
        self._setting = setting
        self._counters = counters
        self._ncu = ncu.find_ncu()
        self._waiting: ProfilingPasses = {}
        self._warming: asyncio.Task[None] | None = None
        self._missing: dict[str, str] = {}
        self._proven: set[str] = set()
        """Modes that have shown something."""
        self._open: set[str] = set()
        """Modes that see nothing behind closed doors, not even of the probe: network and files are left open there."""
        if not self._ncu:
            self._miss("counters", ncu.MISSING)

    @property
    def missing(self) -> tuple[str, ...]:
        """What cannot be asked on this machine, as far as it is known by now, one sentence each."""
        return tuple(self._missing.values())

    def get_ready(self, lease: Lease | None = None) -> None:
        """Start the processes that the next profiling pass needs, so that it need not wait for them. In a running loop.

        With ``lease`` the device's contexts, and the profilers but the counters, are started in them too, while others
        may use the device.
        """
        for mode in ALWAYS:
            if mode not in self._missing and mode not in self._waiting:
                self._waiting[mode] = self._standby(mode)
        if lease is not None and (self._warming is None or self._warming.done()):
            # Not Nsight Compute: it would hold the counters while it waits, and others could not profile.
            waiting = [standby for mode, standby in self._waiting.items() if mode != "counters"]
            self._warming = asyncio.create_task(_warmed(waiting, lease), name="profilers warm up")

    async def profile(self, inspect: Inspect, files: Sequence[int], lease: Lease) -> DeviceProfile | None:
        """Profile the candidate of ``inspect``; ``files`` are its memory files. None if nothing is permitted here.

        Each profiler has a process of its own, and ``inspect.seconds`` for each of its two steps. It loads the
        candidate while others may use the device, and calls it while nobody else does. A candidate that fails there,
        or does not end, gives less of a profile, or one without kernels, and the reason among ``unavailable``.
        """
        began = time.monotonic()
        modes = self._permitted()
        if not modes:
            return None
        if proton.has_scopes(inspect.source) and "scopes" not in self._missing:
            modes.append("scopes")
        profile, reasons = await self._run(modes, inspect, files, lease)
        if ncu.may_pass(reasons.get("counters", "")):
            profile, reasons = await self._run(modes, inspect, files, lease)
        for mode in modes:
            if mode in reasons and mode in ALWAYS:
                # The candidate's word is not enough to give a profiler up, or to open a door to it.
                await self._prove(mode, lease)
            elif mode not in reasons:
                self._proven.add(mode)
        self.get_ready()
        messages = (
            f"{NAMES[mode]} saw nothing of it: {why}" for mode, why in reasons.items() if mode not in self._missing
        )
        return replace(profile, unavailable=(*self.missing, *messages), seconds=time.monotonic() - began)

    async def prove(self, lease: Lease) -> DeviceProfile:
        """Find out what this machine permits, with a candidate of our own."""
        profile, reasons = await self._run(self._permitted(), PROBE, (), lease)
        for mode in reasons:
            await self._prove(mode, lease)
        if any(mode in self._open for mode in reasons):
            profile, _ = await self._run(self._permitted(), PROBE, (), lease)
        return replace(profile, unavailable=self.missing)

    async def close(self) -> None:
        """End the processes that wait."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait({self._warming})
        waiting, self._waiting = list(self._waiting.values()), {}
        await _closed(waiting)

    def _permitted(self) -> list[str]:
        return [mode for mode in ALWAYS if mode not in self._missing]

    async def _prove(self, mode: str, lease: Lease) -> None:
        """See whether the probe can be profiled in this mode; first behind closed doors, then with them open."""
        why = ""
        for doors in ("closed", "open"):
            if mode in self._proven or mode in self._missing:
                return
            if doors == "open":
                self._open.add(mode)
                if mode in self._waiting:
                    await self._waiting.pop(mode).close()
            _, reasons = await self._run([mode], PROBE, (), lease)
            why = reasons.get(mode, "")
            if not why:
                self._proven.add(mode)
        if mode not in self._proven and mode not in self._missing:
            self._miss(mode, why)

    async def _run(
        self, modes: Sequence[str], inspect: Inspect, files: Sequence[int], lease: Lease
    ) -> tuple[DeviceProfile, dict[str, str]]:
        """What profilers see of a candidate, and by mode why one sees nothing."""
        if self._counters is None or "counters" not in modes:
            return await self._run_alone(modes, inspect, files, lease)
        # Before the lease: whoever has the counters needs that to come to an end.
        async with self._counters.exclusive():
            return await self._run_alone(modes, inspect, files, lease)

    async def _run_alone(
        self, modes: Sequence[str], inspect: Inspect, files: Sequence[int], lease: Lease
    ) -> tuple[DeviceProfile, dict[str, str]]:
        passes: ProfilingPasses = {mode: self._taken(mode) for mode in modes}
        every, failed = list(passes.values()), dict[str, str]()

        async def step(taken: Sequence[str], do: Callable[[Standby], Awaitable[None]]) -> None:
            """One step with some of them at once; who cannot take it is out."""
            left = [mode for mode in taken if mode in passes]
            for mode, error in zip(left, await _all(do(passes[mode]) for mode in left), strict=True):
                if error is not None:
                    standby = passes.pop(mode)
                    failed[mode] = self._why(standby, error)
                    # At once: it may still keep the device busy.
                    await asyncio.shield(standby.close())

        try:
            if self._warming is not None:
                await asyncio.wait({self._warming})
            await step(modes, lambda standby: standby.connected(START_SECONDS))
            async with lease.shared():
                await step(modes, lambda standby: standby.load(_for(standby.mode, inspect), files))
            async with lease.exclusive():
                for mode in modes:
                    await step([mode], lambda standby: standby.measure(inspect.seconds))
            # Nothing else writes after the last answer.
            await step(["counters"], Standby.end)
            profile, unread = await asyncio.to_thread(put_together, passes)
        finally:
            await asyncio.shield(_closed(every))
        return profile, {**failed, **unread}

    def _taken(self, mode: str) -> Standby:
        return self._waiting.pop(mode) if mode in self._waiting else self._standby(mode)

    def _standby(self, mode: str) -> Standby:
        doors = "open" if mode in self._open else "closed"
        if mode == "counters":
            return Standby(mode, self._setting, lambda file: ncu.command(self._ncu, file), doors=doors)
        return Standby(mode, self._setting, doors=doors)

    def _why(self, standby: Standby, error: NothingSeen) -> str:
        reason = str(error)
        if standby.mode == "counters":
            reason = ncu.why_not(f"{log_of(standby)}\n{error}", otherwise=reason) or reason
        if isinstance(error, NeverStarted):
            # Nothing of a candidate was in it yet.
            self._miss(standby.mode, reason)
        return reason

    def _miss(self, mode: str, reason: str) -> None:
        self._missing[mode] = reason if mode == "counters" else f"nothing from {NAMES[mode]} here: {reason}"


def _for(mode: str, inspect: Inspect) -> Inspect:
    # Scopes are compiled in when the kernel is first launched.
    return replace(inspect, programs=inspect.programs or mode == "scopes")


async def _all(steps: Iterable[Awaitable[None]]) -> list[NothingSeen | None]:
    """Take all steps at once; for each what it failed with.

    Raises:
        BaseException: a step failed with anything else.
    """
    results = await asyncio.gather(*steps, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, NothingSeen):
            raise result
    return [result if isinstance(result, NothingSeen) else None for result in results]


async def _warmed(standbys: Sequence[Standby], lease: Lease) -> None:
    """Warm up those that come up; of one that fails, whoever profiles with it is told."""
    failed = await _all(standby.connected(START_SECONDS) for standby in standbys)
    # Without a lease whoever judges next says why.
    with contextlib.suppress(InputError):
        async with lease.shared():
            await _all(
                standby.warm_up(START_SECONDS) for standby, error in zip(standbys, failed, strict=True) if error is None
            )


async def _closed(standbys: Sequence[Standby]) -> None:
    await asyncio.gather(*(standby.close() for standby in standbys))
