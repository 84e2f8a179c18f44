"""Records the baselines' calls for replay on an accelerator, once, as candidates' calls are."""

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from statistics import median

import msgspec

from ..machine.lease import Share
from ..processes.messages import Done
from ..processes.worker import Worker
from .inputs.case import Case
from .inputs.input_sets import InputSets
from .messages.recording import APART, COLD, WARM, Record, Recorded
from .messages.timing import IDLE, Time, Timed
from .recorded_sets import WEIGHTS_BYTES, calls_in_a_recording, halves, laid
from .reference_commands import ask_reference
from .timed_shape import TimedShape
from .timing.interleaved import Implementation

APART_SAMPLES = 3


class Recordings:
    """The recorded baselines of one process at one shape."""

    def __init__(self, timed: TimedShape, l2_bytes: int, time: Callable[[Time], Awaitable[Timed]]) -> None:
        """Nothing is recorded yet; ``time`` asks the process, whose last-level cache has ``l2_bytes``."""
        self._timed, self._l2_bytes, self._time = timed, l2_bytes, time
        self.own: list[Implementation] = []
        """The recorded baselines."""
        self.not_replayed = ""
        """Why calls are not replayed, as a clause."""
        self.calls = 0
        """Calls of one recording."""
        self.warm_ns: dict[str, float] = {}
        """Time of a call by baseline where the cache holds all that fits."""
        self.apart_ns = 0.0
        """What a call of the best baseline costs more where input sets are intact only around their calls."""

    def __bool__(self) -> bool:
        return bool(self.own)

    def implementations(self) -> list[Implementation]:
        """The baselines as the device replays them, their batches sized already, without samples."""
        return [replace(implementation, samples=[]) for implementation in self.own]

    async def supply(self) -> InputSets | None:
        """The pool that recordings take their input sets from; None where these are too large for one."""
        supply = await self._timed.supplies.get()
        return supply if supply is not None and supply.sets >= 2 * self.calls else None

    async def draw(self, share: Share) -> None:
        """Have the pool drawn, which needs nobody's device for long: right answers of the harder inputs in it do, and
        are made before, making way."""
        case = (await self._timed.cases())[0]
        if not case.is_large:
            async for _ in self._timed.host.derived_cases(share):
                pass
            await self._timed.supplies.get(2 * self._calls_like(case))

    @property
    def flush(self) -> bool:
        """Whether the cache is flushed before each call of a recording."""
        setup = self._timed.host.setup
        return setup is not None and setup.size >= WEIGHTS_BYTES

    def _calls_like(self, case: Case) -> int:
        return calls_in_a_recording(case, self._l2_bytes, flush=self.flush)

    async def begin(self, worker: Worker, share: Share) -> None:
        """Give ``worker`` the input sets of its recordings, or note why nothing can be recorded.

        As in :meth:`add` the process stands still for whoever waits for what it holds as ``share``.
        """
        case = (await self._timed.cases())[0]
        if case.is_large:
            self.not_replayed = "its inputs and outputs are too large to be recorded several times"
            return
        self.calls = len(await self._timed.cases())
        if (supply := await self._timed.supplies.get()) is not None:
            self.calls = min(self._calls_like(case), supply.sets // 2)
            sets = halves(supply, self.calls)[0]
            message, file = await laid(supply, sets, await self._timed.state(), aliased=case.aliased)
            try:
                await ask_reference(worker, message, Done, [file], share=share)
            finally:
                os.close(file)
        await self._record(worker, IDLE, share)

    async def add(self, worker: Worker, names: Sequence[str], share: Share) -> None:
        """Have ``worker`` record the calls of further baselines. If one cannot be recorded, none is replayed."""
        for name in names:
            if not self.not_replayed and await self._record(worker, name, share):
                added = Implementation(name=name, ask=self.replay, copies=self.calls)
                self.own.append(added)
        if self.not_replayed:
            self.own.clear()

    async def _record(self, worker: Worker, name: str, share: Share) -> bool:
        recorded, _ = await ask_reference(worker, Record(name=name, flush=self.flush), Recorded, share=share)
        if recorded.reason:
            self.not_replayed = f"{name} cannot be recorded: {recorded.reason}"
        return not recorded.reason

    async def replay(self, command: Time) -> Timed:
        """Time replays, in a cold cache unless ``command`` says otherwise."""
        return await self._time(msgspec.structs.replace(command, form=command.form or COLD))

    async def time_other_forms(self, best: str, ns: float) -> None:
        """Time calls in a warm cache, and those of the best baseline on inputs that are intact only around each."""
        for baseline in self.own:
            warm = await self.replay(Time(calls=baseline.calls, name=baseline.name, form=WARM))
            self.warm_ns[baseline.name] = warm.ns / baseline.calls
        calls = next(recording.calls for recording in self.own if recording.name == best)
        timed = [await self.replay(Time(calls=calls, name=best, form=APART)) for _ in range(APART_SAMPLES)]
        self.apart_ns = max(0.0, median(batch.ns / calls for batch in timed) - ns)
