"""Two clocks on one batch: its process's, which may lie, and the supervisor's."""

import math
from statistics import median

from ...schemas import Verdict
from . import contest
from .contest import Contestant
from .judgement import Judged, judged
from .messages import Timed

CHECK_NS = 30_000_000
"""The batch that both clocks are compared on is at least so long."""
CLOCK_SHARE = 0.1
CLOCK_SLACK_NS = 3_000_000
"""Its own clock may show so much less than ours: messages and the scheduler cost time too."""
CLOCK_TRIES = 5
"""So many batches on which the clocks differ are a lie; not those beside which an honest clock differs as much."""
MOST_CLOCK_TRIES = 20
SAMPLE_SHARE = 1.5
"""A checked call may take so many times what one took in the batches that were counted."""


def believed(timed: Timed, claimed: float, calls: int, beside: int) -> int:
    """Nanoseconds that a batch took by what its process says, at the least; ``claimed`` a call in an earlier one."""
    return min(timed.whole_ns, timed.ns + beside, round(SAMPLE_SHARE * claimed * calls) + beside)


def agree(shown: int, elapsed: int) -> bool:
    """Whether what a process shows fits what passed by our clock, nanoseconds both."""
    return elapsed - shown <= CLOCK_SLACK_NS + CLOCK_SHARE * elapsed


def checked_calls(one: Contestant) -> int:
    """Calls that take :data:`CHECK_NS` by its own clock; but by ours not many times a batch, should that clock lie."""
    wanted = math.ceil(CHECK_NS / max(1.0, median(one.samples)))
    return max(1, min(wanted, one.calls * CHECK_NS // contest.BATCH_NS))


def lies(shown: int, elapsed: int, calls: int) -> Judged:
    """The verdict on a clock that shows less than passed, nanoseconds both."""
    message = f"its clock shows {shown / 1e6:.2f} ms for {calls} calls that took {elapsed / 1e6:.2f} ms"
    return judged(Verdict.tampering, message)
