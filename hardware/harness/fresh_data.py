"""Is it as fast on data that it has not seen? Timing repeats calls on a few inputs, which pays for remembering answers.

The contents of one copy are replaced, at the same addresses, by a case that this process never met, and a single call
on them is timed and checked. A candidate that replays what it returned before is wrong there or slow.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from ...schemas import Verdict
from .case_host import Case, CaseHost
from .judgement import Judged, judged
from .messages import Done, Stock, Time, Timed
from .verification import Suspect

TRIES = 6
"""One slow call may be the scheduler's doing; each further try has a process of its own, to which all data is new."""
KNOWN_ROUNDS = 4
"""Times that a batch goes round the copies to find out how slow the machine is just now."""
FACTOR = 1.5
SLACK_NS = 4_000
"""Caches and sleeping threads cost a single call more than a batch: the least of the tries, by a tenth to a fifth."""

Check = Callable[[Case], Awaitable[None]]
Another = Callable[[], AbstractAsyncContextManager[Suspect]]


@dataclass(frozen=True)
class Look:
    """What one call on unseen data showed. Neither fast nor slow: the machine was slow just then, and hides which."""

    unseen_ns: float
    is_fast: bool = False
    is_slow: bool = False
    """Slower than known data before, and beside it."""


@dataclass(frozen=True)
class FreshCall:
    """One call of ``suspect`` on unseen data."""

    cases: CaseHost
    suspect: Suspect
    slot: int
    check: Check
    """Judges what the last call left in ``slot``."""

    async def unseen_ns(self, calls: int) -> float:
        """Time of a call on a case that this process has not met, after ``calls`` on those that it has; nanoseconds.

        Raises:
            Judged: it returned something wrong.
        """
        copies, case = len(await self.cases.timed_cases()), await self.cases.final_case()
        # Of the next `copies` calls the last one gets the copy that this one gets.
        turn = (await self._time(Time(calls=calls))).last
        await self.suspect.ask(Stock(inputs=case.inputs, reuse=turn, later=True), Done, (case.file,), case=case)
        # As long a run-up as a batch is: a core that just woke up may be five times as slow for a millisecond.
        before = copies * math.ceil(calls / copies) if calls > 1 else 0
        timed = await self._time(Time(calls=1, before=before, warm=copies - 1, slot=self.slot))
        await self.check(case)
        return timed.ns

    async def known_ns(self) -> float:
        """Time of a call in a batch on data that this process has met by now; nanoseconds.

        On a machine that is slow just now (fresh huge pages can take 40 ms on a virtual one) these are slow as well.
        The batch is long enough that work done in its last call alone does not show.
        """
        calls = KNOWN_ROUNDS * len(await self.cases.timed_cases())
        return (await self._time(Time(calls=calls))).ns / calls

    async def _time(self, command: Time) -> Timed:
        timed, _ = await self.suspect.ask(command, Timed, case=(await self.cases.timed_cases())[0])
        return timed


def is_slow(unseen_ns: float, seen_ns: float) -> bool:
    """Whether a call on unseen data takes longer than it can by chance."""
    return unseen_ns > FACTOR * seen_ns + SLACK_NS


def remembers(unseen_ns: float, seen_ns: float) -> Judged:
    """The verdict on a candidate that is slow on unseen data every time."""
    shown = f"{_microseconds(unseen_ns)} on data it has not seen, {_microseconds(seen_ns)} on data it has"
    return judged(Verdict.stale_output, f"it keeps answers for later calls: a call takes {shown}")


def _microseconds(ns: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(max(ns / 1e3, 0.1))))
    return f"{ns / 1e3:.{digits}f} us"
