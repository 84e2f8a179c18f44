"""The supervisor's side of the baselines: compiled once for a problem, kept warm, restarted if their process dies."""

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...schemas import BaselineReport, BaselineStatus, HardwareFacts, HarnessError, Problem, ProblemFacts, sha256
from ..machine.lease import Lease, Share
from ..machine.roofline import roofline
from ..processes.messages import HOST, Done, Failure
from ..processes.worker import Worker, WorkerDied
from .baseline_compilation import (
    BUILD_SECONDS,
    LATE_AFTER_SECONDS,
    WORK_SECONDS,
    built_beside,
    missing,
    pending,
    upload,
)
from .deaths import BaselinesDied, Deaths, dead
from .inputs.input_sets import LEAST_BATCHES, InputSets
from .inputs.sizes import MAIN_SEEDS
from .launcher import Launcher
from .messages.batch import Batch, Lay, Warm
from .messages.commands import Release
from .messages.timing import IDLE, Time, Timed
from .recordings import Recordings
from .reference_commands import ask_reference
from .timed_shape import TimedShape
from .timing.batch_timing import BATCH_NS, counted, idle_ns, implementation
from .timing.idle_check import until_idle
from .timing.interleaved import EVENTS, GRAPH, Implementation
from .timing.timekeeping import TimedBatch, TimedProcess, TimekeeperProcess

QUICK_SAMPLES = 3
FASTER = 4
"""The pool has input sets enough for a candidate that is so many times as fast as the fastest baseline."""
BATCH_SECONDS = 60.0
"""Limit for a batch of a baseline."""


class BaselineProcess:
    """The process in which a problem's baselines are timed at one shape, for which they are compiled."""

    def __init__(
        self,
        launcher: Launcher,
        timed: TimedShape,
        problem: Problem,
        baselines: Sequence[str],
        hardware: HardwareFacts,
    ) -> None:
        self._launcher = launcher
        self.timed = timed
        """The shape."""
        self._problem = problem
        self._baseline_names = baselines
        self._hardware = hardware
        self._guard = asyncio.Lock()
        self._worker: Worker | None = None
        self._implementations: list[Implementation] = []
        self._process: TimedProcess | None = None
        """The process where it is timed from outside."""
        self._idle_ns = 0
        """What a batch that is timed from outside takes beside its calls."""
        self.recordings = self._no_recordings()
        self.late: dict[str, BaselineStatus] = {}
        """Baselines that are left out for now (:mod:`.late_baseline`), and what is said of them."""
        self.hand_over: Callable[[str, Worker, asyncio.Task[BaselineStatus]], None] | None = None
        """Takes a baseline that holds up the others, with the process that compiles it; None: it is waited for."""
        self.report: BaselineReport | None = None
        self.deaths = Deaths()
        self._preparing: asyncio.Task[object] | None = None
        """Who has the guard."""

    @property
    def cache_key(self) -> str:
        """Stands for all that compiled baselines depend on, beside the compiler."""
        facts = self._hardware
        parts = (self._problem.sha256, self.timed.name, facts.torch, facts.device, *facts.isa)
        return sha256("\0".join(parts).encode())[:32]

    async def close(self) -> None:
        """End the process."""
        worker, self._worker = self._worker, None
        process, self._process = self._process, None
        if process is not None:
            await process.clear()
        if worker is not None:
            await worker.kill()

    def _no_recordings(self) -> Recordings:
        return Recordings(self.timed, self._hardware.l2_bytes, self._time)

    async def prepare(self, facts: ProblemFacts, lease: Lease) -> BaselineReport:
        """Compile the baselines and time them once; the second time only if their process is gone, or one is late.

        Raises:
            ReferenceDied: not even eager can be timed; a second time it is raised at once.
        """
        async with self._guard:
            self._preparing = asyncio.current_task()
            if self.report is None or not self._is_ready or self.joining:
                self.report = await self.deaths.prepared(lambda: self._prepared(facts, lease))
            return self.report

    @property
    def joining(self) -> list[str]:
        """Baselines that were left out when the others were built, and are not any more."""
        statuses = self.report.statuses if self.report is not None else ()
        return [status.name for status in statuses if status.pending and status.name not in self.late]

    async def _prepared(self, facts: ProblemFacts, lease: Lease) -> BaselineReport:
        started = time.monotonic()
        statuses = await self._build_joining(lease) if self._is_ready and self.joining else None
        report = await self._measure(statuses or await self._build_all(lease), facts, lease, started)
        if self.timed.host.large:
            await self.make_room()
        return report

    @property
    def _is_ready(self) -> bool:
        lives = self._worker is not None and self._worker.alive
        return lives and (self._process is None or self._process.has_arena)

    async def make_room(self) -> None:
        """Have the process hand back memory that it keeps for its next call, which may be long in coming."""
        if self._worker is not None and self._worker.alive:
            # That it died shows when it is timed next.
            with contextlib.suppress(WorkerDied, HarnessError):
                await ask_reference(self._worker, Release(), Done)

    @property
    def on_processor(self) -> bool:
        """Whether calls run on the processor, whose counters then tell of them."""
        return self._launcher.device == HOST

    @property
    def pid(self) -> int:
        """The baselines' process as we see it; 0 if there is none."""
        return self._worker.pid if self._worker else 0

    async def idle_ns(self, calls: int, form: str = "", flushes: int = 0) -> int:
        """What ``calls`` cost beside the calls themselves, by our clock: the flushes between them on an accelerator."""
        if self.on_processor:
            return 0
        began = time.perf_counter_ns()
        await self._time(Time(calls=calls, name=IDLE, form=form, flushes=flushes))
        return time.perf_counter_ns() - began

    @property
    def timekeeper(self) -> TimekeeperProcess:
        """Who times from outside."""
        return self._launcher.timekeeper

    async def supply(self) -> InputSets | None:
        """The pool of input sets if calls are timed from outside; None where processes time themselves."""
        return await self.timed.supplies.get() if self._process is not None else None

    async def lay_for(self, supply: InputSets) -> Lay:
        """How a process is given its arena."""
        main = (await self.timed.cases())[0]
        return Lay(
            inputs=supply.described(range(supply.warm)) or supply.inputs,
            stride=supply.stride,
            sets=supply.most_calls,
            state=await self.timed.state(),
            aliased=main.aliased,
        )

    def count(self, batch: TimedBatch) -> Timed:
        """What counts of a batch, by the timekeeper's clock."""
        return counted(batch, self._idle_ns)

    async def measure_idle(self) -> None:
        """Measure what a batch costs beside its calls."""
        if self._process is not None:
            self._idle_ns = await idle_ns(self._batch)

    @property
    def idle(self) -> Implementation:
        """A call that does nothing: what it takes is what the harness takes."""
        most_calls = min(baseline.most_calls for baseline in self._implementations)
        return replace(implementation(IDLE, self._time, most_calls), calls=most_calls)

    def go_on(self) -> None:
        """Let the process run: it stands still after each batch."""
        if self._process is not None:
            self._process.go_on()

    def implementations(self) -> list[Implementation]:
        """The baselines that can be timed, their batches sized already, without samples."""
        is_cold = bool(self.timed.host.large) and not self.on_processor
        return [replace(implementation, samples=[], is_cold=is_cold) for implementation in self._implementations]

    @property
    def copies(self) -> int:
        """How many input sets calls are timed on in turn."""
        return self.recordings.calls if self.recordings else MAIN_SEEDS

    async def _build_all(self, lease: Lease) -> list[BaselineStatus]:
        """Every baseline's status. One that takes its process along, dead or late, is left out of the next try."""
        left_out: dict[str, BaselineStatus] = {}
        while True:
            statuses: list[BaselineStatus] = []
            async with lease.shared(makes_way=True) as share:
                await self._restart(share)
            for name in self._baseline_names:
                # Later it is in the caches, or other candidates were compared with it.
                may_be_late = self.report is None and any(status.ok for status in statuses)
                status = left_out.get(name) or self.late.get(name) or await self._built(name, lease, may_be_late)
                statuses.append(status)
                if not (self._worker and self._worker.alive):
                    left_out[name] = status
                    break
            else:
                return statuses

    async def _build_joining(self, lease: Lease) -> list[BaselineStatus] | None:
        """Every baseline's status, once those that join are built beside the others; None if their process is gone."""
        assert self.report is not None
        self.go_on()
        joining = {name: await self._built(name, lease) for name in self.joining}
        statuses = [joining.get(status.name, status) for status in self.report.statuses]
        return statuses if self._is_ready else None

    async def _restart(self, share: Share) -> None:
        await self.close()
        self._implementations, self.recordings = [], self._no_recordings()
        await self.timed.cases(share)
        self._worker = await self._launcher.spawn("baseline", memory_bytes=self._launcher.reference_memory)
        try:
            await upload(self._worker, self.timed)
        except WorkerDied as error:
            raise dead(error, self._worker) from error

    async def _built(self, name: str, lease: Lease, may_be_late: bool = False) -> BaselineStatus:
        """Compile a baseline in the process, which stands still while others time something on the device.

        One that ``may_be_late`` and takes long is handed over with the process.
        """
        worker, hand_over = self._worker, self.hand_over if may_be_late else None
        assert worker is not None
        limit_s = BUILD_SECONDS if hand_over is None else WORK_SECONDS
        work = built_beside(name, worker, lease, limit_s=limit_s)
        task = asyncio.create_task(work, name=f"compiling {name}")
        try:
            await asyncio.wait({task}, timeout=None if hand_over is None else LATE_AFTER_SECONDS)
            if hand_over is None or task.done():
                return await task
        except TimeoutError:
            return missing(name, f"not compiled within {limit_s:g} s", limit_s)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        self._worker = None
        self.late[name] = pending(name)
        hand_over(name, worker, task)
        return self.late[name]

    async def _measure(
        self, statuses: list[BaselineStatus], facts: ProblemFacts, lease: Lease, started: float
    ) -> BaselineReport:
        if not any(status.ok for status in statuses):
            reasons = "; ".join(f"{status.name}: {status.detail}" for status in statuses)
            raise self.deaths.final(f"no baseline of {self._problem.name} can be timed: {reasons}")
        timed_names = {implementation.name for implementation in self._implementations}
        await self._add([status.name for status in statuses if status.ok and status.name not in timed_names], lease)
        async with lease.exclusive():
            await self.measure_idle()
            await self._sample(QUICK_SAMPLES)
            medians = {implementation.name: implementation.median_ms for implementation in self._timed}
            best = min(medians, key=lambda name: medians[name])
            if self.recordings:
                await self.recordings.time_other_forms(best, medians[best] * 1e6)
        self.go_on()
        return BaselineReport(
            statuses=tuple(statuses),
            median_ms=medians,
            best=best,
            roofline=roofline(facts.work, self._hardware, medians[best], copies=self.copies, dtype=facts.dtype),
            seconds=time.monotonic() - started,
            measure="" if self.on_processor else GRAPH if self.recordings else EVENTS,
            not_replayed=self.recordings.not_replayed,
        )

    @property
    def _timed(self) -> list[Implementation]:
        return self.recordings.own or self._implementations

    async def _sample(self, rounds: int) -> None:
        for baseline in (*self._implementations, *self.recordings.own):
            await baseline.calibrate()
            baseline.samples.clear()
        for _ in range(rounds):
            for baseline in self._timed:
                await baseline.sample()

    async def _add(self, names: Sequence[str], lease: Lease) -> None:
        """Have calls of these baselines timed, beside those that are there."""
        assert self._worker is not None
        if self._process is not None:
            await self._add_outside(names, lease)
            return
        is_first = not self._implementations
        self._implementations += [Implementation(name=name, ask=self._time, copies=MAIN_SEEDS) for name in names]
        if self.on_processor:
            if is_first:
                await self._time_from_outside(names, lease)
        elif is_first or self.recordings:
            if is_first:
                async with lease.exclusive():
                    await self._sample(0)
            async with lease.shared(makes_way=True) as share:
                await self.recordings.draw(share)
                if is_first:
                    await self.recordings.begin(self._worker, share)
                await self.recordings.add(self._worker, names, share)

    async def _time_from_outside(self, names: Sequence[str], lease: Lease) -> None:
        """Have the timekeeper time the process from here on, where the problem and the system allow that."""
        assert self._worker is not None
        async with lease.exclusive():
            await self._sample(0)
            # The least of several: a pool that is drawn for disturbed calls is too small for a batch of what is faster.
            fastest = math.inf
            for baseline in self._implementations * QUICK_SAMPLES:
                timed = await baseline.ask(Time(calls=baseline.calls, name=baseline.name))
                fastest = min(fastest, timed.ns / baseline.calls)
        async with lease.shared():
            supply = await self.timed.supplies.get(round(FASTER * LEAST_BATCHES * BATCH_NS / max(fastest, 1.0)))
            if supply is None or not self._worker.pid:
                return
            process = TimedProcess(self._launcher.timekeeper, self._worker, supply, is_ours=True)
            file = await process.make_arena()
            try:
                await ask_reference(self._worker, await self.lay_for(supply), Done, [file])
            finally:
                os.close(file)
            if not await process.can_be_read(IDLE, BATCH_SECONDS):
                await process.clear()
                return
            self._process, self._implementations = process, []
        await self._add_outside(names, lease)

    async def _add_outside(self, names: Sequence[str], lease: Lease) -> None:
        assert self._worker is not None
        supply = await self.supply()
        assert supply is not None
        for name in () if supply.are_alike else names:
            # Compilers compile anew for other sizes, up to a limit. Not in what is timed.
            async with lease.shared():
                self.go_on()
                await ask_reference(self._worker, Warm(calls=supply.most_calls, name=name), Done, seconds=BUILD_SECONDS)
        self._implementations += [implementation(name, self._time, supply.most_calls) for name in names]

    def _check_ready(self) -> None:
        """Whoever has the machine must not wait for a process that stands still for him while it is made ready.

        Raises:
            BaselinesDied: it is gone, or another one takes its place.
        """
        if self._worker is None or (self._guard.locked() and asyncio.current_task() is not self._preparing):
            raise BaselinesDied("the baselines' process is gone")

    async def _time(self, command: Time) -> Timed:
        self._check_ready()
        assert self._worker is not None
        if self._process is None:
            timed, _ = await self.deaths.answered(
                ask_reference(self._worker, command, Timed, seconds=BATCH_SECONDS), self._worker
            )
            if self.on_processor:
                await until_idle(self._worker.pid)
            return timed
        if command.warm:
            self._process.go_on()
            warm = Warm(calls=command.warm, name=command.name)
            await self.deaths.answered(ask_reference(self._worker, warm, Done), self._worker)
        batch = Batch(calls=command.calls, name=command.name, one_by_one=command.one_by_one)
        return self.count(await self._batch(batch))

    async def _batch(self, command: Batch) -> TimedBatch:
        self._check_ready()
        if self._process is None:
            raise BaselinesDied("the baselines' process is gone")
        batch = await self.deaths.answered(
            self._process.batch(command, unseen=False, seconds=BATCH_SECONDS), self._worker
        )
        if isinstance(batch, Failure):
            raise BaselinesDied(f"{command.name} failed although it was built: {batch.message}\n{batch.log}")
        return batch
