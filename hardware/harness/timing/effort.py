"""How long a candidate is timed: in how many processes, until when, and when further ones change nothing."""

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ....schemas import Timing

SECONDS = 60.0
"""After so long no process is begun beyond the usual ones."""
EARLY_SECONDS = 10.0
"""After so long no process is begun once the usual ones would decide nothing any more: short timings stay precise."""
LEAST_PROCESSES = 2
"""One process may be lucky."""


@dataclass(frozen=True)
class Effort:
    """What the timing of one candidate may cost."""

    processes: int = 0
    """Fresh processes of the candidate; 0: as many as usual."""
    against: str = "best"
    """The baseline that a win is measured against."""
    until: float = math.inf
    """On the monotonic clock: no further process is begun afterwards, only the first always is."""
    patient_until: float = 0.0
    """On the monotonic clock: until then baselines that are compiled in the background are waited for, those alone that
    count where a win is measured :attr:`against` a baseline."""
    hurried: Callable[[], Awaitable[None]] | None = None
    """Returns once nobody is to be waited for any longer, before :attr:`patient_until`."""

    @property
    def is_late(self) -> bool:
        """Whether it has to come to an end."""
        return time.monotonic() > self.until

    def for_next(self, steps: int) -> "Effort":
        """For the next of so many ``steps`` that have to be done in time: its share of what is left :attr:`until` then.

        Or the first shape took all of it, and the others and ordinary processes had none.
        """
        now = time.monotonic()
        return replace(self, until=now + (self.until - now) / steps)

    def is_enough(self, processes: int, usual: int, seconds: float, timing: Callable[[], Timing]) -> bool:
        """Whether no process is begun after so many ``processes``, which took so many ``seconds``.

        ``usual``: how many there are where nobody asks for a number. ``timing``: what they say so far.
        """
        if not processes:
            return False
        if processes >= (self.processes or usual) or self.is_late or (processes >= usual and seconds > SECONDS):
            return True
        return processes >= LEAST_PROCESSES and seconds > EARLY_SECONDS and is_decided(timing(), self.against)


USUAL = Effort()
"""As much as the kind of timing takes."""


def is_decided(timing: Timing, against: str) -> bool:
    """Whether it is no win, or would be one even if its interval were twice as wide."""
    interval = timing.speedup[timing.baseline(against)]
    return interval.high < 1.0 or interval.low**2 > interval.median
