"""Times a call on unseen inputs: timing repeats calls on a few inputs, which rewards kernels that keep answers.

The contents of one copy are replaced, at the same addresses, by a case that this process never met, and a single call
on them is timed and checked. A candidate that replays what it returned before is wrong there or slow.

The call is compared with the batches that were counted in the same process, and nothing comes between: whatever a
candidate can tell the single call by, it was counted before. After a call that is slow by chance another process is
timed, and what is counted is the one whose call was fast.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ...schemas import Evidence, HarnessError, Verdict
from ..processes.messages import Done
from .inputs.case import Case
from .judgement import Judged
from .messages.timing import Time, Timed, Upload
from .timed_shape import TimedShape
from .untrusted import UntrustedCandidate

TRIES = 7
"""One slow call may be the scheduler's doing; each further try has a process of its own, to which all data is new."""
MOST_TRIES = 20
"""So many if what was counted differs so much between the processes that chance explains the slow calls, too."""
FACTOR = 1.5
SLACK_NS = 4_000
"""Caches and sleeping threads cost a single call more than a batch: the least of the tries, by a tenth to a fifth."""

Check = Callable[[Case], Awaitable[None]]


class Memoizes(Judged):
    """The candidate was slow on unseen data: once by chance, time and again since it keeps answers."""

    clause = "it keeps answers for later calls"
    unseen, seen = "on data it has not seen", "on data it has"

    def __init__(self, unseen_ns: float, seen_ns: float, factor: float = FACTOR, slack_ns: float = SLACK_NS) -> None:
        self.unseen_ns, self.seen_ns = unseen_ns, seen_ns
        self._factor, self._slack_ns = factor, slack_ns
        shown = f"{_microseconds(unseen_ns)} {self.unseen}, {_microseconds(seen_ns)} {self.seen}"
        message = f"{self.clause}: a call takes {shown}"
        super().__init__(Verdict.stale_output, Evidence(message=message))

    def is_slow(self, unseen_ns: float, seen_ns: float) -> bool:
        """Whether chance explains no such times, by the measure of this one."""
        return unseen_ns > self._factor * seen_ns + self._slack_ns


@dataclass(frozen=True)
class FreshCall:
    """One call of ``untrusted`` on unseen data."""

    timed: TimedShape
    untrusted: UntrustedCandidate
    slot: int
    check: Check
    """Judges what the call left in ``slot``."""

    async def unseen_ns(self, calls: int) -> tuple[float, int]:
        """Time of a call on a case that this process has not met, and which copy of the inputs that case replaced.

        About ``calls`` calls on known data come before; nanoseconds.

        Raises:
            Judged: it returned something wrong.
        """
        copies, case = len(await self.timed.cases()), await self.timed.final_case()
        # Of the next `copies` calls the last one gets the copy that this one gets.
        turn = (await self._time(Time(calls=1))).kept
        await self.untrusted.ask(Upload(inputs=case.inputs, reuse=turn, later=True), Done, (case.file,), case=case)
        # As long a run-up as a batch is: a core that just woke up may be five times as slow for a millisecond.
        before = copies * math.ceil(calls / copies) if calls > 1 else 0
        timed = await self._time(Time(calls=1, before=before, warm=copies - 1, slot=self.slot))
        await self.check(case)
        return timed.ns, turn

    async def _time(self, command: Time) -> Timed:
        timed, _ = await self.untrusted.ask(command, Timed, case=(await self.timed.cases())[0])
        return timed


def judge(slow: Sequence[Memoizes]) -> None:
    """Say what slow calls mean, one in each process of a candidate, none of which had a fast one. No more, so far.

    Threads that wait for one another on a busy machine make batches slow now and then, and single calls often. So what
    convicts is that the fastest of these calls is slow beside the slowest of what was counted.

    Raises:
        Memoizes: it keeps answers.
        HarnessError: the machine is too busy to tell.
    """
    fastest, counted = min(call.unseen_ns for call in slow), max(call.seen_ns for call in slow)
    if len(slow) >= TRIES and slow[-1].is_slow(fastest, counted):
        raise slow[-1]
    if len(slow) >= MOST_TRIES:
        raise HarnessError("the machine is so busy that a single call cannot be compared with those that were counted")


def is_slow(unseen_ns: float, seen_ns: float) -> bool:
    """Whether a call on unseen data takes longer than it can by chance."""
    return unseen_ns > FACTOR * seen_ns + SLACK_NS


def _microseconds(ns: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(max(ns / 1e3, 0.1))))
    return f"{ns / 1e3:.{digits}f} us"
