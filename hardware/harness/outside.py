"""Times one process of a candidate from outside, against the baselines of its problem."""

import contextlib
import os
from dataclasses import dataclass, field, replace

from msgspec import structs

from ...schemas import Counters, Evidence, Verdict
from ..machine.background_load import BackgroundLoad
from ..processes.messages import Done, Failure
from ..profilers import CounterSession
from .inputs.case import Case
from .inputs.input_sets import InputSets
from .inputs.sizes import bytes_of
from .judgement import Judged, check_form
from .messages.batch import Batch, Form, Warm
from .messages.commands import Output
from .messages.timing import Time, Timed
from .process_checks import ProcessChecks, must_be_right_when_timed, start_counting
from .redraws import NARROW
from .state_verification import check_form as check_form_of_state
from .timing import interleaved
from .timing.batch_timing import implementation
from .timing.interleaved import Implementation, Part, Plan, Spent
from .timing.one_by_one import time_one_by_one
from .timing.read_batches import ReadBatches
from .timing.timekeeping import MOST_CHECKED, CheckedCall, TimedBatch, TimedProcess
from .untrusted import Taken
from .verification import Verification

TAKEN_BYTES = 128 << 20
"""So much of a process's outputs is read and compared, but one of each batch that is read."""


@dataclass
class TimedOutside(ProcessChecks):
    """What counts is the timekeeper's clock, and the outputs that it read while the process stood still."""

    case: Case
    """One of the timed shape."""
    supply: InputSets
    process: TimedProcess
    is_counted: bool = False
    """Whether batches are on unseen input sets, and count."""
    read: ReadBatches = field(default_factory=lambda: ReadBatches(is_thorough=True))
    """Which batches have outputs read."""
    calls: list[CheckedCall] = field(default_factory=list)
    """Those whose outputs are still to be compared."""

    async def prepare(self) -> None:
        """Give it its inputs' memory.

        Raises:
            Judged: the candidate's process died of it.
        """
        file = await self.process.make_arena()
        try:
            await self.untrusted.ask(await self.timing.lay_for(self.supply), Done, (file,), case=self.case)
        finally:
            os.close(file)

    async def interleave(self, plan: Plan) -> tuple[Part, Counters | None]:
        """The interleaved run.

        Raises:
            Judged: the candidate failed.
        """
        candidate = implementation(interleaved.CANDIDATE, self._time, self.supply.most_calls)
        self.read = ReadBatches(plan.is_thorough)
        others = BackgroundLoad((self.untrusted.worker.pid, self.timing.pid, self.timing.timekeeper.pid))
        try:
            await self.timing.measure_idle()
            implementations = [*self.timing.implementations(), candidate]
            await candidate.calibrate()
            self.is_counted = True
            # First: batches of many calls take all unseen input sets that there are.
            alone = await time_one_by_one(implementations, self.timing.idle) if plan.is_thorough else {}
            part = replace(await interleaved.hold(implementations, plan, others.share), alone_ns=alone)
            counters = await self._counters(candidate)
        finally:
            self.timing.go_on()
            self.process.go_on()
        await self.check_floor(candidate)
        return part, counters

    async def _time(self, command: Time) -> Timed:
        if self.is_counted and not self.process.has_unseen(command.calls):
            raise Spent
        if command.warm:
            self.process.go_on()
            await self.untrusted.ask(Warm(calls=command.warm), Done, case=self.case)
        batch = Batch(calls=command.calls, one_by_one=command.one_by_one)
        return self.timing.count(await self._batch(batch, unseen=self.is_counted))

    async def _batch(self, command: Batch, *, unseen: bool) -> TimedBatch:
        async def timed(seconds: float) -> TimedBatch | Failure:
            most = self._most_checked()
            return await self.process.batch(command, unseen=unseen, most_checked=most, seconds=seconds)

        batch = await self.untrusted.watched(timed, "the call", self.case)
        if isinstance(batch, Failure):
            raise self.untrusted.failed(batch, self.case)
        self.calls += batch.checked
        return batch

    def _most_checked(self) -> int:
        size = sum(bytes_of(output.shape, output.dtype) for output in self.case.outputs if output.dtype)
        if not (self.is_counted and self.read.is_next_read(size)):
            return 0
        room = (TAKEN_BYTES - size * len(self.calls)) // max(size, 1)
        return max(1, min(MOST_CHECKED, room))

    async def _counters(self, candidate: Implementation) -> Counters | None:
        """What the counters say of one batch more."""
        session = CounterSession()
        if not start_counting(session, self.untrusted.worker.pid):
            return None
        await self._batch(Batch(calls=candidate.calls), unseen=False)
        return session.stop(candidate.calls)

    async def check_taken(self) -> None:
        """Compare everything that was read while the process stood still.

        Raises:
            Judged: something of it is wrong.
        """
        try:
            await self._compare_all()
        except Judged:
            self.timed.supplies.renew()
            raise

    async def _compare_all(self) -> None:
        verification = Verification(self.timed.host, self.untrusted)
        while self.calls:
            call = self.calls[0]
            case = await self.timed.host.case(self.supply.cases[call.number])
            with contextlib.closing(Taken(case, await self._outputs(call, case), [call.file])) as taken:
                self.calls.pop(0)
                result = await verification.compare_taken(taken, allowance=NARROW)
                must_be_right_when_timed(result, case)

    async def _outputs(self, call: CheckedCall, case: Case) -> tuple[Output, ...]:
        """What a call left, in its form as it must be."""
        outputs, state = tuple(map(_output, call.forms)), await self.timed.state()
        # Behind what it returned stands its state: of this case, unless calls on other inputs change more.
        returned = len(outputs) - len(state)
        check_form(outputs[: max(returned, 0)], case.outputs[: case.returned], case)
        if call.problem:
            message = f"what a timed call left cannot be read: {call.problem}"
            raise Judged(Verdict.tampering, Evidence(message=message, shape=case.shape))
        if state != case.state:
            return outputs[:returned]
        check_form_of_state(outputs, case)
        return outputs

    async def close(self) -> None:
        """Let go of what was read, and of the inputs' memory."""
        await self.process.clear()
        for call in self.calls:
            os.close(call.file)
        self.calls.clear()


def _output(form: Form) -> Output:
    return Output(**structs.asdict(form))
