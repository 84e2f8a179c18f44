"""Which batches of a process have outputs read: all, except large outputs of a candidate that is no finalist."""

import secrets
from dataclasses import dataclass, field

from ..inputs.input_sets import LEAST_BATCHES

QUICK_BYTES = 64 << 20
"""Of who is no finalist about so much is read by chance, where outputs are larger than an eighth of it."""
GROUP = 3
"""Of so many batches in a row one is read at least, drawn before the first of them."""


@dataclass
class ReadBatches:
    """Draws it before every counted batch: no process knows before which it is not looked at."""

    is_thorough: bool
    """Whether every batch is read."""
    _count: int = field(default=0, init=False)
    _drawn: int = field(default=0, init=False)
    """Which one of the group that is under way."""

    def is_next_read(self, size: int) -> bool:
        """Whether outputs of the next batch are read; ``size`` is a call's, bytes."""
        place = self._count % GROUP
        if place == 0:
            self._drawn = secrets.randbelow(GROUP)
        self._count += 1
        by_chance = secrets.randbelow(LEAST_BATCHES * size + 1) <= QUICK_BYTES
        return self.is_thorough or by_chance or place == self._drawn
