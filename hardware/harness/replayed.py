"""Times a process of a candidate whose calls the device replays: the device's time counts, without launches.

Times are cross-checked as in :mod:`.self_timed`. In some replays each input set is intact only around its call
(:mod:`.tensors.poisoning`), so that working ahead or computing calls together saves nothing; they cap the speedup. A
replay on unseen input sets, beside one on those that were used, shows whether the candidate keeps answers.
"""

import math
import os
import secrets
import time
from dataclasses import dataclass, field, replace
from statistics import median

import msgspec

from ...schemas import Counters
from ..processes.messages import Done
from .fresh_data import Memoizes
from .inputs.input_sets import InputSets
from .judgement import Judged
from .messages.batch import Lay
from .messages.recording import APART, COLD, WARM, Record, Recorded, TakeCall
from .messages.timing import Time, Timed
from .recorded_sets import halves, laid
from .self_timed import TIMED_SLOT, SelfTimed
from .timing import interleaved
from .timing.interleaved import Implementation, Part, Plan

SHARE, SLACK_NS = 0.1, 500
"""A call may take so much longer on inputs that it has never seen."""
LAUNCH_NS = 10_000
"""What launching one replay may cost more than launching another."""
MOST_APART_NS = 10_000
"""So much of what a call takes more where its inputs come at its turn is excused by what the best baseline's does."""
APART_NS, APART_SHARE = 6_000, 0.3
"""An honest call may take so much more beside that: 13 kernels of outside authors, of 16 to 175 us, took 0 to 6.0 us
more (H200), and one of 16 us 5.1. Both together are such a share of what was counted at most."""
WARM_SAMPLES = APART_SAMPLES = 3
LEAST_ANSWERED, ANSWERING_SECONDS = 4, 0.5
"""Of each half of a process's input sets so many have their right answers made, and more while that takes no longer."""
MOST_AHEAD_BYTES = 256 << 20
"""Input sets up to this size are copied before the device is taken: 150 MB took an H200's host 0.11 s, of the 0.48 s in
which a candidate had the device."""


class CannotReplay(Exception):
    """The candidate's calls cannot be recorded; a clause says why."""


@dataclass
class Replayed(SelfTimed):
    """What counts is what its device says of replays, held against our clock."""

    supply: InputSets | None = None
    """Where its input sets come from; None where they are too large for a pool: then it has a few copies."""
    numbers: list[int] = field(default_factory=list)
    """The sets of the pool that its recording is on, in order."""
    unseen: list[int] = field(default_factory=list)
    """As many others."""
    known: list[int] = field(default_factory=list)
    """Which calls may have their outputs compared: those on sets whose right answers are there."""
    known_unseen: list[int] = field(default_factory=list)
    """The same of calls on ``unseen``."""
    ahead: dict[bool, tuple[Lay, int]] = field(default_factory=dict)
    """Messages and files of ``unseen`` sets and of those that it had, still to be sent."""
    apart_ns: float | None = None
    """Time of a call whose inputs are there only for its turn."""

    async def prepare(self) -> None:
        """Hand over the input sets, and have its calls recorded.

        Raises:
            CannotReplay: they cannot be.
            Judged: the candidate's process died of it.
        """
        if self.supply is None:
            await super().prepare()
        else:
            self.copies = list(await self.timed.cases())
            self.numbers, self.unseen = halves(self.supply, self.timing.recordings.calls)
            self.known, self.known_unseen = await self._answered(self.numbers), await self._answered(self.unseen)
            await self._lay(self.numbers)
            if self.supply.stride * len(self.numbers) <= MOST_AHEAD_BYTES:
                for unseen in (False, True):
                    self.ahead[unseen] = await self._laid(self._sets(unseen), later=True)
        command = Record(flush=self.timing.recordings.flush)
        recorded, _ = await self.untrusted.ask(command, Recorded, case=self.copies[0])
        if recorded.reason:
            raise CannotReplay(recorded.reason)

    async def interleave(self, plan: Plan) -> tuple[Part, Counters | None]:
        """As of every process that times itself; and its time where the cache holds all that fits."""
        part, counters = await super().interleave(plan)
        warm = {**self.timing.recordings.warm_ns, interleaved.CANDIDATE: await self._warm_ns(part)}
        return replace(part, measure=interleaved.GRAPH, warm_ns=warm, alone_ns=self.alone_ns(part)), counters

    def alone_ns(self, part: Part) -> dict[str, float]:
        """Time of a call by name where the inputs of each come at its turn, as far as it is the candidate's doing."""
        if self.apart_ns is None:
            return {}
        # What the baselines take more is not in it any more: they count as among many calls.
        alone = {series.name: float(median(series.samples_ns)) for series in part.series}
        among = alone[interleaved.CANDIDATE]
        excused = min(self.timing.recordings.apart_ns, MOST_APART_NS) + APART_NS
        alone[interleaved.CANDIDATE] = max(among, self.apart_ns - min(excused, APART_SHARE * among))
        return alone

    def _baselines(self) -> list[Implementation]:
        return self.timing.recordings.implementations()

    def _as_asked(self, command: Time) -> Time:
        return msgspec.structs.replace(command, form=command.form or COLD)

    def _in_full(self, calls: int) -> int:
        return self.timing.recordings.calls * math.ceil(calls / self.timing.recordings.calls)

    async def _beside_ns(self, calls: int, flushes: int) -> int:
        return await self.timing.idle_ns(calls, COLD)

    async def _warm_ns(self, part: Part) -> float:
        calls = next(series.calls for series in part.series if series.name == interleaved.CANDIDATE)
        timed = [await self._replay(Time(calls=calls, form=WARM)) for _ in range(WARM_SAMPLES)]
        return median(batch.ns / calls for batch in timed)

    async def _check_timed_output(self, copy: int) -> None:
        """What one of the recorded calls left must be right: nobody knew which one."""
        indices = self.known if self.supply is not None else list(range(len(self.copies)))
        await self._check_call(indices[secrets.randbelow(len(indices))])

    async def _answered(self, numbers: list[int]) -> list[int]:
        """Places in ``numbers`` whose sets have their right answers made, before the device is taken for timing.

        Some at least; of a network, whose answers take long, not all.
        """
        assert self.supply is not None
        places = [place for place, number in enumerate(numbers) if number in self.supply.cases]
        secrets.SystemRandom().shuffle(places)
        began = time.monotonic()
        for count, place in enumerate(places):
            if count >= LEAST_ANSWERED and time.monotonic() - began > ANSWERING_SECONDS:
                return places[:count]
            await self.timed.host.case(self.supply.cases[numbers[place]])
        return places

    async def _check_call(self, index: int) -> None:
        case = self.copies[index % len(self.copies)]
        if self.supply is not None:
            case = await self.timed.host.case(self.supply.cases[self.numbers[index]])
        await self.untrusted.ask(TakeCall(call=index % self.timing.recordings.calls, slot=TIMED_SLOT), Done, case=case)
        await self._take(case)

    async def _check_memory(self, candidate: Implementation) -> None:
        """Replay its calls once on input sets that it has not seen.

        Raises:
            Memoizes: that takes longer.
            Judged: it is wrong there.
        """
        if self.supply is None:
            await super()._check_memory(candidate)
            return
        timed = [await self._replay(Time(calls=candidate.calls, form=APART)) for _ in range(APART_SAMPLES)]
        self.apart_ns = median(batch.ns / candidate.calls for batch in timed)
        # Both times the data have just arrived, which costs the first replay what no later one pays.
        known_ns = await self._arrived_ns(unseen=False)
        unseen_ns = await self._arrived_ns(unseen=True)
        self.numbers, self.known = self.unseen, self.known_unseen
        for index in self.known:
            await self._check_call(index)
        slack_ns = SLACK_NS + LAUNCH_NS / self.timing.recordings.calls
        if unseen_ns > (1 + SHARE) * known_ns + slack_ns:
            raise Memoizes(unseen_ns, known_ns, factor=1 + SHARE, slack_ns=slack_ns)

    async def _arrived_ns(self, *, unseen: bool) -> float:
        """Time of a call when sets of the pool have just arrived."""
        await self._lay(self._sets(unseen), later=True, ahead=self.ahead.pop(unseen, None))
        calls = self.timing.recordings.calls
        return (await self._replay(Time(calls=calls, form=APART))).ns / calls

    async def _replay(self, command: Time) -> Timed:
        timed, _ = await self.untrusted.ask(command, Timed, case=self.copies[0])
        return timed

    def _sets(self, unseen: bool) -> list[int]:
        return self.unseen if unseen else self.numbers

    async def _lay(self, numbers: list[int], *, later: bool = False, ahead: tuple[Lay, int] | None = None) -> None:
        message, file = ahead or await self._laid(numbers, later=later)
        try:
            await self.untrusted.ask(message, Done, (file,), case=self.copies[0])
        finally:
            os.close(file)

    async def _laid(self, numbers: list[int], *, later: bool) -> tuple[Lay, int]:
        assert self.supply is not None
        state, aliased = await self.timed.state(), self.copies[0].aliased
        return await laid(self.supply, numbers, state, aliased=aliased, later=later)

    async def check_taken(self) -> None:
        """Compare everything that was kept while it was timed.

        Raises:
            Judged: something of it is wrong.
        """
        try:
            await super().check_taken()
        except Judged:
            self.timed.supplies.renew()
            raise

    async def close(self) -> None:
        """Let go of what was kept, and of what was not sent."""
        await super().close()
        for _, file in self.ahead.values():
            os.close(file)
        self.ahead.clear()
