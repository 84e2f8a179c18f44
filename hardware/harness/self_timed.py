"""Times a process of a candidate by its own clock, against the baselines; the times are cross-checked."""

import secrets
from dataclasses import dataclass, field, replace
from statistics import median

import msgspec

from ...schemas import Counters, HarnessError, Verdict
from ..machine.background_load import BackgroundLoad
from ..processes.messages import Done
from ..profilers import CounterSession
from . import fresh_data
from .fresh_data import FreshCall, Memoizes
from .inputs.case import Case
from .inputs.sizes import MAIN_SEEDS, bytes_of
from .judgement import judged
from .messages.timing import Time, Timed, Upload
from .process_checks import ProcessChecks, must_be_right_when_timed, start_counting
from .redraws import NARROW
from .timing import clocks, interleaved
from .timing.clocks import Batch, ClockResult
from .timing.idle_check import IdleCheck, until_idle
from .timing.interleaved import Implementation, Part, Plan
from .untrusted import Taken
from .verification import EARLY, Verification

MOST_DOUBTS = 3
"""Batches in a row whose clocks are far apart are compared with an honest process's, the next ones as well."""
MOST_FAR_APART = 3
"""So many of these are a verdict: a busy supervisor hears late of several batches in a row, and in time of the next."""
TAKEN_BYTES = 128 << 20
"""So much of a process's outputs is expected to be kept and compared, and twice as much at most, but one output."""
LEAST_BATCHES = 12
"""About the fewest that are timed. Every second one is checked; where outputs are large, one of so many."""
TIMED_SLOT = 1000


@dataclass
class SelfTimed(ProcessChecks):
    """What counts is its own clock, held against ours: on an accelerator, and where nobody may stop and read it."""

    copies: list[Case] = field(default_factory=list)
    """What the copies of the inputs in its process hold."""
    doubts: int = 0
    """Batches in a row whose time by its clock was too short by ours."""
    far_apart: int = 0
    """Those of them beside which an honest clock agreed with ours."""
    taken: list[Taken] = field(default_factory=list)
    """Outputs that are still to be compared."""
    idle_check: IdleCheck = field(init=False)
    """What its process does between its turns."""

    def __post_init__(self) -> None:
        self.idle_check = IdleCheck(self.untrusted.worker.pid)

    async def prepare(self) -> None:
        """Hand the copies of the inputs over that timing rotates through.

        Raises:
            Judged: the candidate's process died of it.
        """
        state = await self.timed.state()
        self.copies = list(await self.timed.cases())
        for case in self.copies:
            await self.untrusted.ask(Upload(inputs=case.inputs, state=state), Done, (case.file,), case=case)

    async def interleave(self, plan: Plan) -> tuple[Part, Counters | None]:
        """The interleaved run, a call on fresh data, a batch on which the clocks are compared and the counters read.

        Raises:
            Memoizes: it was slow on fresh data, this time.
            Judged: the candidate failed, or its clock is not to be believed.
        """
        candidate = Implementation(name=interleaved.CANDIDATE, ask=self._time, copies=MAIN_SEEDS)
        baselines = self._baselines()
        others = self._background_load().share if self.timing.on_processor else lambda: 0.0
        part = replace(await interleaved.hold([*baselines, candidate], plan, others), measure=self._measure)
        self._check_idle()
        # At once: whatever else comes between would tell the candidate that nothing is counted any more.
        await self._check_memory(candidate)
        counters = await self._check_clock(candidate, baselines[0])
        await self.check_floor(candidate)
        return part, counters

    @property
    def _measure(self) -> str:
        return "" if self.timing.on_processor else interleaved.EVENTS

    def _baselines(self) -> list[Implementation]:
        return self.timing.implementations()

    def _as_asked(self, command: Time) -> Time:
        return command

    def _in_full(self, calls: int) -> int:
        """So many calls, or as few more as its process makes where it is asked for them: our clock sees them all."""
        return calls

    async def _beside_ns(self, calls: int, flushes: int) -> int:
        """What so many calls of a long batch cost beside them."""
        return await self.timing.idle_ns(calls, flushes=flushes)

    def _check_idle(self) -> None:
        """Nobody computes while the others are timed.

        Raises:
            Judged: it does.
        """
        if self.idle_check.is_none:
            used, rested = self.idle_check.used_ns / 1e6, self.idle_check.rested_ns / 1e6
            message = f"it computes while others are timed: {used:.3g} ms of processor time in {rested:.3g} ms"
            raise judged(Verdict.hidden_work, message)

    async def _time(self, command: Time) -> Timed:
        """One batch of the interleaved benchmark; chance decides whether an output of it is checked."""
        timed = (await self._time_twice(command)).timed
        if self._is_chosen():
            self.idle_check.end()
            await self._check_timed_output(timed.kept)
            self.idle_check.begin()
        return timed

    def _is_chosen(self) -> bool:
        """Whether this batch is checked: as likely early as late, and never known before."""
        size = sum(bytes_of(output.shape, output.dtype) for output in self.copies[0].outputs if output.dtype)
        one_of = min(max(2, -(-LEAST_BATCHES * size // TAKEN_BYTES)), LEAST_BATCHES)
        has_room = not self.taken or len(self.taken) * size < 2 * TAKEN_BYTES
        return has_room and not secrets.randbelow(one_of)

    async def _time_twice(self, command: Time) -> Batch:
        """One batch by its clock and by ours.

        Raises:
            Judged: the clocks are far apart several times in a row, where an honest one is not: that is no scheduler's.
        """
        first = self.copies[0]
        # Every batch keeps an output, so that a command does not say whether it will be checked.
        command = self._as_asked(msgspec.structs.replace(command, slot=TIMED_SLOT))

        async def ask(request: Time) -> Timed:
            timed, _ = await self.untrusted.ask(request, Timed, case=first)
            return timed

        self.idle_check.end()
        batch = await clocks.by_all(ask, command, self.untrusted.worker.pid, works_there=self.timing.on_processor)
        if self.timing.on_processor:
            await until_idle(self.untrusted.worker.pid)
        self.idle_check.begin()
        self.doubts = self.doubts + 1 if batch.is_doubtful else 0
        beside_honest = self.doubts >= MOST_DOUBTS and await self._is_steady(self._baselines()[0])
        self.far_apart = self.far_apart + beside_honest if self.doubts else 0
        if self.far_apart >= MOST_FAR_APART:
            raise clocks.cross_check_failure(batch.timed.whole_ns, batch)
        return batch

    async def _check_clock(self, candidate: Implementation, honest: Implementation) -> Counters | None:
        """Compare its clock and its samples with our clock; returns what the counters say of the same calls.

        Raises:
            Judged: they differ time and again, where an honest clock beside it does not.
            HarnessError: the machine is so busy that no two clocks agree.
        """
        counted = median(candidate.samples)
        figures: list[str] = []
        tally = clocks.CrossCheckTally(most_flushes=1 if self.timing.on_processor else clocks.MOST_FLUSHES)
        while tally.is_open:
            # Beside the check, so that a disturbance slows both.
            batches = clocks.short_batches(candidate.calls, counted) if tally.tries else 1
            short = [await self._time_twice(clocks.as_counted(candidate)) for _ in range(batches)]
            session = CounterSession()
            counting = self.timing.on_processor and start_counting(session, self.untrusted.worker.pid)
            others = self._background_load()
            calls = self._in_full(tally.times * clocks.checked_calls(candidate.calls, counted))
            checked = await self._time_twice(Time(calls=calls, flushes=tally.flushes))
            cores = others.cores()
            counters = session.stop(checked.calls) if counting else None
            await self._check_timed_output(checked.timed.kept)
            beside = await self._beside_ns(checked.calls, tally.flushes)
            comparison = clocks.ClockCrossCheck(checked, short, counted, beside, cores, tally.flushes)
            if comparison.result is ClockResult.agrees:
                return counters
            steady = comparison.needs_steadiness and await self._is_steady(honest, tally.flushes, tally.times)
            figures.append(f"{comparison.result.name}{' beside a steady one' * steady}: {comparison.figures}")
            tally.count(comparison, steady=steady)
            if tally.has_passed:
                return counters
            if tally.has_failed:
                raise clocks.cross_check_failure(comparison.believed_ns, checked, "\n".join(figures))
        raise HarnessError("the machine is so busy that the clocks of two processes cannot be compared")

    async def _is_steady(self, honest: Implementation, flushes: int = 1, times: int = 1) -> bool:
        """Whether our clock and that of a process which we know to be honest agree just now, on so long a batch."""
        others = self._background_load()

        async def timed(command: Time) -> Batch:
            return await clocks.by_all(honest.ask, command, self.timing.pid, works_there=self.timing.on_processor)

        short = await timed(clocks.as_counted(honest))
        calls = self._in_full(times * clocks.checked_calls(honest.calls, short.claimed_ns))
        checked = await timed(Time(calls=calls, name=honest.name, flushes=flushes))
        cores, beside = others.cores(), await self._beside_ns(calls, flushes)
        comparison = clocks.ClockCrossCheck(checked, [short], short.claimed_ns, beside, cores, flushes)
        return comparison.result is not ClockResult.differs

    def _background_load(self) -> BackgroundLoad:
        return BackgroundLoad((self.untrusted.worker.pid, self.timing.pid))

    async def _check_memory(self, candidate: Implementation) -> None:
        """Time a call on data that it has not seen.

        Raises:
            Memoizes: it is slow there.
            Judged: it is wrong there.
        """
        seen_ns = median(candidate.samples)
        fresh = FreshCall(self.timed, self.untrusted, TIMED_SLOT, self._take)
        unseen_ns, replaced = await fresh.unseen_ns(candidate.calls)
        self.copies[replaced] = await self.timed.final_case()
        if fresh_data.is_slow(unseen_ns, seen_ns):
            raise Memoizes(unseen_ns, seen_ns)

    async def _check_timed_output(self, copy: int) -> None:
        """What a timed call returned must be right; ``copy`` is the one that it got."""
        await self._take(self.copies[copy])

    async def _take(self, case: Case) -> None:
        """Keep what a call left; comparing it can wait until others may use the machine again."""
        # Where calls change different things, what is handed over beside the outputs is not what this case has.
        form = case.form if case.state == await self.timed.state() else case.form[: case.returned]
        self.taken.append(await Verification(self.timed.host, self.untrusted).take(TIMED_SLOT, case, form))

    async def check_taken(self) -> None:
        """Compare everything that was kept while it was timed.

        Raises:
            Judged: something of it is wrong.
        """
        verification = Verification(self.timed.host, self.untrusted)
        while self.taken:
            taken = self.taken.pop(0)
            hint = "" if self.timing.on_processor else EARLY
            result = await verification.compare_taken(taken, allowance=NARROW)
            must_be_right_when_timed(result, taken.case, hint)

    async def close(self) -> None:
        """Let go of what was kept."""
        for taken in self.taken:
            taken.close()
