"""The baselines as the supervisor holds them: compiled once for a problem, kept warm, healed if their process dies."""

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import msgspec

from ...schemas import BaselineReport, BaselineStatus, HardwareFacts, HarnessError, Problem, ProblemFacts
from ..machine.lease import Lease
from ..machine.roofline import roofline
from ..machine.slices import NO_LIMIT, in_slices
from ..processes.messages import HOST, Done, Failure
from ..processes.worker import Worker, WorkerConfused, WorkerDied
from .deaths import BaselinesDied, Deaths, dead, ended_in_words
from .inputs.input_sets import LEAST_BATCHES, InputSets
from .launcher import Launcher
from .messages.batch import Batch, Lay, Warm
from .messages.commands import Opened, Release
from .messages.recording import APART, COLD, WARM, Record, Recorded
from .messages.timing import IDLE, Build, Built, Time, Timed, Upload
from .recorded_sets import WEIGHTS_BYTES, calls_in_a_recording, halves, laid
from .reference_process import MAIN_SEEDS, ask_reference
from .timed_shape import TimedShape
from .timing.batch_timing import BATCH_NS, counted, idle_ns, implementation
from .timing.idle_check import until_idle
from .timing.interleaved import EVENTS, GRAPH, Implementation
from .timing.timekeeping import TimedBatch, TimedProcess, TimekeeperProcess

BUILD_SECONDS = 180.0
"""Limit for compiling one baseline. One that takes longer is reported as missing."""
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
        self._not_replayed = ""
        """Why not, as a clause."""
        self._idle_ns = 0
        """What a batch that is timed from outside takes beside its calls."""
        self._recorded: list[Implementation] = []
        """The baselines whose calls the device replays; empty where one of them cannot be recorded."""
        self.recorded_calls = 0
        """Calls of one recording."""
        self.flush = False
        """Whether the cache is flushed before each of them."""
        self.warm_ns: dict[str, float] = {}
        """Time of a call by baseline where the cache holds all that fits."""
        self.apart_ns = 0.0
        """What a call of the best baseline costs more where input sets are intact only around their calls."""
        self.late: dict[str, BaselineStatus] = {}
        """Baselines that are left out for now (:mod:`.late_baseline`), and what is said of them."""
        self.report: BaselineReport | None = None
        self.deaths = Deaths()

    async def close(self) -> None:
        """End the process."""
        worker, self._worker = self._worker, None
        process, self._process = self._process, None
        if process is not None:
            await process.clear()
        if worker is not None:
            await worker.kill()

    async def prepare(self, facts: ProblemFacts, lease: Lease) -> BaselineReport:
        """Compile the baselines and time them once; the second time only if their process is gone.

        Raises:
            ReferenceDied: not even eager can be timed; a second time it is raised at once.
        """
        async with self._guard:
            if self.report is None or not self._is_ready:
                self.report = await self.deaths.prepared(lambda: self._prepared(facts, lease))
            return self.report

    async def _prepared(self, facts: ProblemFacts, lease: Lease) -> BaselineReport:
        started = time.monotonic()
        statuses = await self._build_all(lease)
        report = await self._measure(statuses, facts, lease, started)
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
        return [replace(implementation, samples=[]) for implementation in self._implementations]

    @property
    def is_recorded(self) -> bool:
        """Whether the device replays the baselines' calls."""
        return bool(self._recorded)

    def recorded_implementations(self) -> list[Implementation]:
        """The baselines as the device replays them, their batches sized already, without samples."""
        return [replace(implementation, samples=[]) for implementation in self._recorded]

    async def recorded_supply(self) -> InputSets | None:
        """The pool that recordings take their input sets from; None where these are too large for one."""
        supply = await self.timed.supplies.get()
        return supply if supply is not None and supply.sets >= 2 * self.recorded_calls else None

    @property
    def copies(self) -> int:
        """How many input sets calls are timed on in turn."""
        return self.recorded_calls if self.is_recorded else MAIN_SEEDS

    async def _build_all(self, lease: Lease) -> list[BaselineStatus]:
        """Every baseline's status. One that kills its process is left out of the next try."""
        hopeless: dict[str, BaselineStatus] = {}
        while True:
            statuses: list[BaselineStatus] = []
            async with lease.shared():
                await self._restart()
            for name in self._baseline_names:
                status = hopeless.get(name) or self.late.get(name) or await self._built(name, lease)
                statuses.append(status)
                if not (self._worker and self._worker.alive):
                    hopeless[name] = status
                    break
            else:
                return statuses

    async def _restart(self) -> None:
        await self.close()
        await self.timed.host.shapes()
        self._worker = await self._launcher.spawn("baseline", memory_bytes=self._launcher.reference_memory)
        try:
            await ask_reference(self._worker, self.timed.host.command, Opened)
            state = await self.timed.state()
            for case in await self.timed.cases():
                await ask_reference(self._worker, Upload(inputs=case.inputs, state=state), Done, [case.file])
        except WorkerDied as error:
            raise dead(error, self._worker) from error

    async def _built(self, name: str, lease: Lease) -> BaselineStatus:
        """Compile a baseline; on an accelerator it stands still while others time something there."""
        assert self._worker is not None
        if self.on_processor:
            async with lease.shared():
                return await self._build(name, BUILD_SECONDS)
        try:
            return await in_slices(lambda: self._build(name, NO_LIMIT), lease, self._worker.send, limit_s=BUILD_SECONDS)
        except TimeoutError:
            return _missing(name, BUILD_SECONDS, f"not compiled within {BUILD_SECONDS:g} s")

    async def _build(self, name: str, seconds: float) -> BaselineStatus:
        assert self._worker is not None
        try:
            built, _ = await self._worker.ask(Build(name=name), Built, seconds=seconds)
        except TimeoutError:
            return _missing(name, BUILD_SECONDS, f"not compiled within {BUILD_SECONDS:g} s")
        except (WorkerDied, WorkerConfused) as error:
            return _missing(name, 0.0, f"its process {ended_in_words(error)}")
        if isinstance(built, Failure):
            return _missing(name, 0.0, built.message)
        return BaselineStatus(
            name=name,
            ok=built.ok,
            seconds=built.seconds,
            detail=built.detail,
            compiled=built.compiled,
            kept=built.kept,
        )

    async def _measure(
        self, statuses: list[BaselineStatus], facts: ProblemFacts, lease: Lease, started: float
    ) -> BaselineReport:
        if not any(status.ok for status in statuses):
            reasons = "; ".join(f"{status.name}: {status.detail}" for status in statuses)
            raise self.deaths.final(f"no baseline of {self._problem.name} can be timed: {reasons}")
        names = [status.name for status in statuses if status.ok]
        self._implementations = [Implementation(name=name, ask=self._time, copies=MAIN_SEEDS) for name in names]
        self._recorded, self._not_replayed = [], ""
        async with lease.exclusive():
            await self._sample(0)
            if self.on_processor:
                await self._time_from_outside(names)
            else:
                await self._record_all(names)
            await self._sample(QUICK_SAMPLES)
            timed = self._recorded or self._implementations
            medians = {implementation.name: implementation.median_ms for implementation in timed}
            best = min(medians, key=lambda name: medians[name])
            if self._recorded:
                await self._time_other_forms(best, medians[best] * 1e6)
        self.go_on()
        return BaselineReport(
            statuses=tuple(statuses),
            median_ms=medians,
            best=best,
            roofline=roofline(facts.work, self._hardware, medians[best], copies=self.copies, dtype=facts.dtype),
            seconds=time.monotonic() - started,
            measure="" if self.on_processor else GRAPH if self._recorded else EVENTS,
            not_replayed=self._not_replayed,
        )

    async def _sample(self, rounds: int) -> None:
        timed = self._recorded or self._implementations
        for baseline in timed:
            await baseline.calibrate()
        for _ in range(rounds):
            for baseline in timed:
                await baseline.sample()

    async def _record_all(self, names: Sequence[str]) -> None:
        """Have the process record the calls of each baseline, as candidates' are; or note why they cannot be."""
        assert self._worker is not None
        case = (await self.timed.cases())[0]
        if case.is_large:
            self._not_replayed = "its inputs and outputs are too large to be recorded several times"
            return
        calls = calls_in_a_recording(case, self._hardware.l2_bytes)
        supply = await self.timed.supplies.get(2 * calls)
        self.recorded_calls = len(await self.timed.cases())
        if supply is not None:
            self.recorded_calls = min(calls, supply.sets // 2)
            message, file = laid(
                supply, halves(supply, self.recorded_calls)[0], await self.timed.state(), aliased=case.aliased
            )
            try:
                await ask_reference(self._worker, message, Done, [file])
            finally:
                os.close(file)
        self.flush = self.timed.host.setup is not None and self.timed.host.setup.size >= WEIGHTS_BYTES
        for name in (*names, IDLE):
            recorded, _ = await ask_reference(self._worker, Record(name=name, flush=self.flush), Recorded)
            if recorded.reason:
                self._not_replayed = f"{name} cannot be recorded: {recorded.reason}"
                return
        self._recorded = [Implementation(name=name, ask=self._replay, copies=self.recorded_calls) for name in names]

    async def _replay(self, command: Time) -> Timed:
        return await self._time(msgspec.structs.replace(command, form=command.form or COLD))

    async def _time_other_forms(self, best: str, ns: float) -> None:
        """Time calls in a warm cache, and those of the best baseline on inputs that are intact only around each."""
        for baseline in self._recorded:
            warm = await self._replay(Time(calls=baseline.calls, name=baseline.name, form=WARM))
            self.warm_ns[baseline.name] = warm.ns / baseline.calls
        calls = next(recording.calls for recording in self._recorded if recording.name == best)
        timed = [await self._replay(Time(calls=calls, name=best, form=APART)) for _ in range(QUICK_SAMPLES)]
        apart = [batch.ns / calls for batch in timed]
        self.apart_ns = max(0.0, median(apart) - ns)

    async def _time_from_outside(self, names: Sequence[str]) -> None:
        """Have the timekeeper time the process from here on, where the problem and the system allow that."""
        assert self._worker is not None
        # The least of several: a pool that is drawn for disturbed calls is too small for a batch of what is faster.
        fastest = math.inf
        for baseline in self._implementations * QUICK_SAMPLES:
            timed = await baseline.ask(Time(calls=baseline.calls, name=baseline.name))
            fastest = min(fastest, timed.ns / baseline.calls)
        supply = await self.timed.supplies.get(round(FASTER * LEAST_BATCHES * BATCH_NS / max(fastest, 1.0)))
        if supply is None or not self._worker.pid:
            return
        process = TimedProcess(self._launcher.timekeeper, self._worker, supply, is_ours=True)
        file = await process.make_arena()
        try:
            await ask_reference(self._worker, await self.lay_for(supply), Done, [file])
        finally:
            os.close(file)
        for name in () if supply.are_alike else names:
            # Compilers compile anew for other sizes, up to a limit. Not in what is timed.
            await ask_reference(self._worker, Warm(calls=supply.most_calls, name=name), Done, seconds=BUILD_SECONDS)
        if not await process.can_be_read(IDLE, BATCH_SECONDS):
            await process.clear()
            return
        self._process = process
        self._implementations = [implementation(name, self._time, supply.most_calls) for name in names]
        await self.measure_idle()

    async def _time(self, command: Time) -> Timed:
        if self._worker is None:
            raise BaselinesDied("the baselines' process is gone")
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
        if self._process is None:
            raise BaselinesDied("the baselines' process is gone")
        batch = await self.deaths.answered(
            self._process.batch(command, unseen=False, seconds=BATCH_SECONDS), self._worker
        )
        if isinstance(batch, Failure):
            raise BaselinesDied(f"{command.name} failed although it was built: {batch.message}\n{batch.log}")
        return batch


def _missing(name: str, seconds: float, why: str) -> BaselineStatus:
    return BaselineStatus(name=name, ok=False, seconds=seconds, detail=why)
