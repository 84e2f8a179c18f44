"""Checks that every timed process of a candidate must pass, however it is timed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from ...schemas import Verdict
from ..machine.floors import Floor
from ..profilers import CounterSession
from . import state_verification
from .baseline_process import BaselineProcess
from .inputs.case import Case
from .judgement import explain_numbers, judged, wrong
from .messages.commands import Compared
from .redraws import NARROW
from .timed_shape import TimedShape
from .timing.interleaved import Implementation
from .untrusted import UntrustedCandidate
from .verification import Verification, run_on

_FINAL_SLOT = 1001


@dataclass
class ProcessChecks:
    """One process of a candidate against the baselines of its problem."""

    timed: TimedShape
    timing: BaselineProcess
    untrusted: UntrustedCandidate
    floor: Floor
    """What no call is faster than."""
    floor_now: Callable[[], Floor]
    """The same after measuring the machine once more, which blocks for a second or two."""

    async def check_floor(self, candidate: Implementation) -> None:
        """Nobody is faster than the machine: then part of the work was done where the clock did not see it.

        Raises:
            Judged: it is, and the machine is not faster than it was when it was measured.
        """
        ns = median(candidate.samples)
        if ns < self.floor.ns:
            floor = await asyncio.to_thread(self.floor_now)
            if ns < floor.ns:
                message = f"a call takes {ns / 1e3:.3g} us, but {floor.why}: {floor.ns / 1e3:.3g} us"
                raise judged(Verdict.hidden_work, message)

    async def check_afterwards(self) -> None:
        """Data it has not seen yet, at fresh addresses, now that it has been timed.

        Raises:
            Judged: it is wrong there.
        """
        case = await self.timed.final_case()
        verification = Verification(self.timed.host, self.untrusted)
        outputs = await verification.run(run_on(case, _FINAL_SLOT), case, [])
        result = await verification.compare(_FINAL_SLOT, case, outputs, allowance=NARROW)
        must_be_right_when_timed(result, case)
        await verification.check_unchanged_state(case, " after it was timed")


def start_counting(session: CounterSession, pid: int) -> bool:
    """Whether ``session`` counts what the process does from now on."""
    if not pid:
        return False
    try:
        session.start(pid)
    except ProcessLookupError:
        return False
    return True


def must_be_right_when_timed(result: Compared, case: Case, hint: str = "") -> None:
    """Judge what a timed call left, or one after it.

    Raises:
        Judged: it is wrong; the message ends with ``hint``.
    """
    if not result.ok and result.output >= case.returned:
        raise state_verification.explained(result, case, " while or after it was timed")
    if not result.ok:
        message = f"wrong while or after it was timed: {explain_numbers(result, case.labels)}{hint}"
        raise wrong(Verdict.wrong_numbers, message, case, result)
