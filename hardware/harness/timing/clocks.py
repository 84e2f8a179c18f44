"""Cross-checks the clock of a process against the supervisor's on one batch, and short batches against a long one.

A long batch is compared with short ones like those that were counted: a candidate may do less, or show less, in these
alone. But on a busy machine the scheduler spares short batches (who has slept gets the processor at once) and not long
ones, and a kernel of several threads that wait for one another takes several times as long there. What tells the two
apart is not the candidate's: how long the short batches took by our clock, and the processor time of its process.
"""

import enum
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ....schemas import Verdict
from ...processes.time_limit import waited_seconds, waited_seconds_here
from ..judgement import Judged, judged
from ..messages.timing import Time, Timed
from . import interleaved
from .interleaved import Implementation

CHECK_NS = 30_000_000
"""The batch that both clocks are compared on is at least so long."""
CLOCK_SHARE = 0.1
CLOCK_SLACK_NS = 3_000_000
"""Its own clock may show so much less than ours: messages and the scheduler cost time too."""
CLOCK_TRIES = 5
"""So many batches whose clocks differ fail the cross-check; not those beside which an honest clock differs as much."""
MOST_CLOCK_TRIES = 20
AGREED_BESIDE = 3
"""So many batches that agree only with the short ones beside them, not with those that were counted, and more than say
the contrary: what slowed the machine in the meantime slows a dishonest process's short batches too, now and then."""
LONGEST_CHECK_NS = 500_000_000
"""A batch whose clocks differ is doubled up to this: what a process leaves out grows with it, waiting does not."""
LONG_CALLS = 0.5
"""Of a batch: where its calls alone take so much of it, more flushes change little, and it is doubled at once."""
MOST_FLUSHES = 8
"""On an accelerator a batch whose clocks differ is repeated with more flushes before each call, up to so many: on a
busy machine launching a call and what poisons its inputs takes longer than one flush, and the device waits. Seen on an
H100: 314 us a call by our clock, 182 by its own, for a right kernel."""
MOST_SECONDS = 10.0
"""Beyond :data:`CLOCK_TRIES` no try is begun after so long: threads that spin while they wait can take ages."""
SAMPLE_SHARE = 1.5
"""A checked call may take so many times what one took in the batches that were counted."""
WORK_SHARE = 1.3
"""The same of processor time, which others disturb less; but what messages cost is part of a short batch's."""
SHORT_BATCHES = 5
"""So many like those that were counted are timed beside each checked one: one alone the scheduler may stretch, and a
candidate would be believed what it did not claim."""
SHORT_SLACK_NS = 500_000
"""What messages cost beside a short batch, by our clock."""
PARALLEL = 1.05
"""Who uses more of the processor than this share of one core has several threads, which may spin while they wait."""
WAITED_SHARE = 0.5
"""Of the time that its clock does not show, on an accelerator. Beside ten other sessions a right kernel's process was
convicted: its calls were launched late, and by its device's clock they took a tenth of what passed."""
OTHERS_CORES = 0.25
"""Others disturb a batch if they take so much of a core meanwhile."""


class ClockResult(enum.Enum):
    """What one checked batch says."""

    agrees = enum.auto()
    """What was counted is true of it as well."""
    agrees_beside = enum.auto()
    """What was counted is not; but short ones beside it take as long by now."""
    differs = enum.auto()
    waited = enum.auto()
    """It took longer than the short ones, but for want of a core, as far as the system can tell; or it took no longer
    than the interleaved benchmark, but worked more than those beside it. It says nothing."""


@dataclass(frozen=True)
class Batch:
    """One batch by all clocks."""

    calls: int
    warm: int
    timed: Timed
    """By its own."""
    elapsed_ns: int
    """By ours, from the command to the answer."""
    work_ns: int | None = None
    """Processor time of its process, all threads, by the system's; None where the system does not tell."""
    waited_ns: int = 0
    """How long the thread of it that waited longest was ready to run and had no core, by the system's account; and
    how long we were."""

    @property
    def claimed_ns(self) -> float:
        """Time of a call, as its process says."""
        return self.timed.ns / self.calls

    @property
    def work_per_call_ns(self) -> float | None:
        """Processor time of a call."""
        return None if self.work_ns is None else self.work_ns / (self.calls + self.warm)

    @property
    def is_confirmed(self) -> bool:
        """Whether what it claims has room for its processor time, or :data:`SAMPLE_SHARE` times that for our clock."""
        claimed = self.claimed_ns * (self.calls + self.warm)
        worked = math.inf if self.work_ns is None else self.work_ns
        return worked <= claimed + SHORT_SLACK_NS or self.elapsed_ns <= SAMPLE_SHARE * claimed + SHORT_SLACK_NS

    @property
    def is_doubtful(self) -> bool:
        """Whether its clock shows so little that it should not go on for long, and it computed meanwhile."""
        far_apart = self.elapsed_ns > CHECK_NS and self.timed.whole_ns < self.elapsed_ns / 4
        return (
            far_apart
            and not self.waited_for(self.elapsed_ns - self.timed.whole_ns)
            and (self.work_ns is None or self.work_ns > self.elapsed_ns / 2)
        )

    def waited_for(self, missing_ns: int) -> bool:
        """Whether an accelerator had to wait for its process, or we for a core: that explains what is missing."""
        return self.work_ns is None and self.waited_ns > WAITED_SHARE * missing_ns

    @property
    def is_parallel(self) -> bool:
        """Whether more than one of its threads computed at a time."""
        return self.work_ns is not None and self.work_ns > PARALLEL * self.elapsed_ns


@dataclass(frozen=True)
class ClockCrossCheck:
    """A long batch beside short ones as they are counted. Pure: it decides by these figures alone."""

    checked: Batch
    """The long one."""
    short: Sequence[Batch]
    """Batches as the interleaved benchmark, timed just before; one at least."""
    counted_ns: float
    """Of a call in the interleaved benchmark: the median that would be reported."""
    beside_ns: int = 0
    """What the long batch cost beside its calls, which no clock of its process shows (``BaselineProcess.idle_ns``)."""
    others: float = 0.0
    """Cores that others used during the long batch."""
    flushes: int = 1
    """Before each call of the long batch. For them the clocks may be no farther apart than with one."""

    @property
    def calls_dominate(self) -> bool:
        """Whether the calls themselves, by what was counted, are most of the long batch."""
        return self._calls_ns > LONG_CALLS * self.checked.elapsed_ns

    @property
    def _calls_ns(self) -> float:
        # By what was counted at most: in the long batch it may claim what it likes.
        return min(self.checked.timed.ns, self.counted_ns * self.checked.calls)

    @property
    def believed_ns(self) -> int:
        """What the long batch took by what its process says, here and of the batches that were counted."""
        return self._believed_ns(self.counted_ns)

    @property
    def result(self) -> ClockResult:
        """What this says of its clock and of what it claims."""
        beside = median(batch.claimed_ns for batch in self.short)
        # Work is compared whatever the clocks say: a machine that was slower before hides what was left out.
        hides = self._worked_more and not self._may_have_waited
        if self._agrees(self._believed_ns(self.counted_ns)):
            return ClockResult.waited if hides else ClockResult.agrees
        if self._agrees(self._believed_ns(beside)):
            return ClockResult.waited if hides else ClockResult.agrees_beside
        is_confirmed = self.clock_agrees and any(batch.is_confirmed for batch in self.short)
        missing = self.checked.elapsed_ns - self._believed_ns(self.counted_ns)
        waited = self.checked.waited_for(missing) or (is_confirmed and self._may_have_waited)
        return ClockResult.waited if waited else ClockResult.differs

    @property
    def clock_agrees(self) -> bool:
        """Whether its own clock shows what passed by ours."""
        return self._agrees(self._shown_ns)

    def _agrees(self, shown: int) -> bool:
        elapsed = self.checked.elapsed_ns
        # The calls allow their share however many flushes there are, which allow no more than one does.
        calls = min(1.0, self._calls_ns / max(1, elapsed))
        return agree(shown, elapsed, CLOCK_SHARE * max(1 / self.flushes, calls))

    def _believed_ns(self, claimed: float) -> int:
        return min(self._shown_ns, round(SAMPLE_SHARE * claimed * self.checked.calls) + self.beside_ns)

    @property
    def _shown_ns(self) -> int:
        return min(self.checked.timed.whole_ns, self.checked.timed.ns + self.beside_ns)

    @property
    def figures(self) -> str:
        """What it is decided by, for people, milliseconds."""
        own, counted = self.checked.timed, self.counted_ns * self.checked.calls
        beside = median(batch.claimed_ns for batch in self.short) * self.checked.calls
        values: dict[str, float] = {
            "ours": self.checked.elapsed_ns,
            "its own": own.ns,
            "whole": own.whole_ns,
            "idle": self.beside_ns,
        }
        values |= {"as counted": counted, "as the short ones beside": beside}
        return ", ".join(f"{name} {value / 1e6:.2f}" for name, value in values.items())

    @property
    def needs_steadiness(self) -> bool:
        """Whether it is our clock that says so, which may be late; more work is seen by the system's alone."""
        return self.result is ClockResult.differs and not (self.clock_agrees and self._worked_more)

    @property
    def _may_have_waited(self) -> bool:
        """Whether a call's longer time may be waiting. Processor time tells, but for threads that spin meanwhile."""
        if self._worked_more is None:
            return False
        spins = self.others >= OTHERS_CORES and any(batch.is_parallel for batch in (self.checked, *self.short))
        return spins or not self._worked_more

    @property
    def _worked_more(self) -> bool | None:
        """Whether a call took more processor time than in the short ones; None where the system does not tell."""
        work = self.checked.work_per_call_ns
        if work is None:
            return None
        # Untimed calls before the batch may be honest ones.
        short_work = [
            (batch.work_ns - batch.warm * work) / batch.calls for batch in self.short if batch.work_ns is not None
        ]
        return None if not short_work else work > WORK_SHARE * median(short_work)


async def by_all(ask: interleaved.Ask, command: Time, pid: int, *, works_there: bool) -> Batch:
    """Time a batch by its process's clock, ours and the system's; ``works_there``: not on an accelerator."""
    waited, worked, began = _waited_ns(pid), work_ns(pid), time.perf_counter_ns()
    timed = await ask(command)
    elapsed, now = time.perf_counter_ns() - began, work_ns(pid)
    work = None if not works_there or worked is None or now is None else now - worked
    return Batch(command.calls, command.warm, timed, elapsed, work, _waited_ns(pid) - waited)


def _waited_ns(pid: int) -> int:
    return round(1e9 * (waited_seconds(pid) + waited_seconds_here()))


def as_counted(implementation: Implementation) -> Time:
    """The command for a batch that is counted, to the last field: its process cannot tell what this one is for."""
    return Time(calls=implementation.calls, warm=implementation.warm, name=implementation.name)


def agree(shown: int, elapsed: int, share: float = CLOCK_SHARE) -> bool:
    """Whether what a process shows fits what passed by our clock, nanoseconds both; it may show ``share`` less."""
    return elapsed - shown <= CLOCK_SLACK_NS + share * elapsed


def checked_calls(calls: int, ns: float) -> int:
    """Calls that take :data:`CHECK_NS` if one takes ``ns``, as its process says; ``calls`` are those of a batch.

    By our clock not many times as many as in a batch, should the other clock be wrong.
    """
    return max(1, min(math.ceil(CHECK_NS / max(1.0, ns)), calls * CHECK_NS // interleaved.BATCH_NS))


class CrossCheckTally:
    """What the checked batches of one process say together."""

    def __init__(self, most_flushes: int = 1) -> None:
        self.tries = self._failures = self._beside = 0
        self._ends = time.monotonic() + MOST_SECONDS
        self._most_flushes = most_flushes
        self.times = 1
        """The next batch is to have so many times as many calls as the first one."""
        self.flushes = 1
        """Of the next batch, before each call."""

    def count(self, comparison: ClockCrossCheck, *, steady: bool) -> None:
        """Count one try; ``steady``: an honest process's clock agreed with ours just then, where that was asked."""
        self.tries += 1
        self._failures += comparison.result is ClockResult.differs and (steady or not comparison.needs_steadiness)
        self._beside += comparison.result is ClockResult.agrees_beside
        may_double = 2 * comparison.checked.elapsed_ns <= LONGEST_CHECK_NS
        if comparison.clock_agrees:
            self.times = self.flushes = 1
        elif may_double and (comparison.calls_dominate or self.flushes >= self._most_flushes):
            self.times *= 2
        elif self.flushes < self._most_flushes:
            self.flushes *= 2

    @property
    def is_open(self) -> bool:
        """Whether another try may tell more."""
        in_time = self.tries < CLOCK_TRIES or time.monotonic() < self._ends
        return in_time and self.tries < MOST_CLOCK_TRIES

    @property
    def has_failed(self) -> bool:
        """Most tries say so: on a busy machine clocks differ now in one process, now in the other."""
        return self._failures >= CLOCK_TRIES and 2 * self._failures > self.tries

    @property
    def has_passed(self) -> bool:
        """The machine became slower after the interleaved benchmark, and the candidate with it."""
        return self._beside >= AGREED_BESIDE and self._beside > self._failures


def short_batches(calls: int, ns: float) -> int:
    """How many batches like those that were counted, of ``calls`` of ``ns`` each, are timed beside a checked one."""
    return max(1, min(SHORT_BATCHES, int(CHECK_NS / max(1.0, calls * ns))))


def work_ns(pid: int) -> int | None:
    """Processor time of a process, all threads that it has and had; None where the system does not tell.

    It is the system's account (``clock_getcpuclockid(3)``), which the process cannot make smaller. A thread that runs
    is accounted for at the system's next tick, some milliseconds later; who stands still has been.
    """
    if not pid:
        return None
    try:
        return time.clock_gettime_ns((~pid << 3) | _WORK_OF_A_PROCESS)
    except (OSError, AttributeError):
        return None


_WORK_OF_A_PROCESS = 2
"""``CPUCLOCK_SCHED`` of Linux, whose clocks of processes are their complement, shifted, and the kind of clock."""


def cross_check_failure(shown: int, batch: Batch, log: str = "") -> Judged:
    """The verdict on a clock that shows so many nanoseconds for a batch, which are less than passed."""
    message = f"its clock shows {shown / 1e6:.2f} ms for {batch.calls} calls that took {batch.elapsed_ns / 1e6:.2f} ms"
    return judged(Verdict.tampering, message, log=log)
