"""Input sets of the timed shape: a pool that is drawn once for a problem, of which each process sees a set once."""

from dataclasses import dataclass

from .arguments import Values

POOL_BYTES = 512 << 20
"""Of all input sets, and a sixteenth of the memory at most."""
MOST_SETS = 4096
LEAST_SETS = 8
"""With fewer a process would run out of unseen sets before it is timed well enough."""
LEAST_BATCHES = 8
"""A process is timed in so many batches of unseen sets, if time permits."""
ORACLE_BYTES = 512 << 20
"""Of the input sets whose right answers the reference keeps."""
MOST_JUDGED, LEAST_JUDGED = 48, 6
"""Sets whose right answers are kept. Nobody else knows which they are."""


@dataclass(frozen=True)
class Supply:
    """The pool."""

    file: int
    """Descriptor of its memory file."""
    inputs: Values
    """What one set is like."""
    stride: int
    """Bytes from one set to the next."""
    sets: int
    output_bytes: int
    """Of what a call returns and leaves of its state."""
    cases: dict[int, int]
    """Numbers of the cases that know the right answer, by set."""

    @property
    def warm(self) -> int:
        """How many of the first sets are shown to every process before it is timed."""
        return max(1, min(8, self.sets // 4))

    @property
    def most_calls(self) -> int:
        """Of one batch."""
        return max(1, (self.sets - self.warm) // LEAST_BATCHES)


def sets_for(stride: int, wanted: int, memory: int) -> int:
    """How many sets of ``stride`` bytes a pool has if ``wanted`` would be enough; 0: too large for one.

    ``memory`` is the machine's, bytes.
    """
    most = min(MOST_SETS, min(POOL_BYTES, memory // 16) // max(stride, 1))
    return min(most, max(wanted, LEAST_SETS)) if most >= LEAST_SETS else 0


def judged_sets(sets: int, stride: int, outputs: int) -> int:
    """How many sets of ``stride`` bytes, with ``outputs`` bytes of outputs each, have right answers kept."""
    # Answers are kept in float64, the reference's own beside them.
    return min(sets, MOST_JUDGED, max(LEAST_JUDGED, ORACLE_BYTES // (stride + 3 * outputs + 1)))
