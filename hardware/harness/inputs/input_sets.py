"""Input sets of the timed shape: a pool that is drawn once for a problem, of which each process sees a set once."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ...processes.arguments import Values, specs_of
from ..messages.batch import Drawn
from .case import Case
from .variants import STRIDED, parts

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

HARDER_OF = 4
"""One set of so many at most holds harder inputs than the problem draws."""


@dataclass(frozen=True)
class InputSets:
    """The pool."""

    file: int
    """Descriptor of its memory file."""
    inputs: tuple[Values, ...]
    """What the sets are like: one for all, or one each."""
    stride: int
    """Bytes from one set to the next."""
    sets: int
    output_bytes: int
    """Of what a call returns and leaves of its state."""
    cases: dict[int, int]
    """Numbers of the cases that know the right answer, by set."""
    are_written: bool = False
    """Whether calls write some of their inputs."""

    @property
    def are_alike(self) -> bool:
        """Whether they differ in nothing but the numbers of their tensors."""
        return len(self.inputs) == 1

    def described(self, numbers: Sequence[int]) -> tuple[Values, ...]:
        """What these sets are like, if they are not all alike."""
        return () if self.are_alike else tuple(self.inputs[number] for number in numbers)

    @property
    def warm(self) -> int:
        """How many of the first sets are shown to every process before it is timed."""
        return warm_sets(self.sets)

    @property
    def most_output_bytes(self) -> int:
        """Of a call; how large outputs are may hang on the data."""
        return 4 * self.output_bytes + (1 << 20)

    @property
    def most_calls(self) -> int:
        """Of one batch."""
        return max(1, (self.sets - self.warm) // LEAST_BATCHES)


def warm_sets(sets: int) -> int:
    """How many of so many sets every process is shown before it is timed."""
    return max(1, min(8, sets // 4))


def sets_for(stride: int, count: int, memory: int) -> int:
    """How many sets of ``stride`` bytes a pool has if ``count`` would be enough; 0: too large for one.

    ``memory`` is the machine's, bytes.
    """
    most = min(MOST_SETS, min(POOL_BYTES, memory // 16) // max(stride, 1))
    return min(most, max(count, LEAST_SETS)) if most >= LEAST_SETS else 0


def judged_sets(sets: int, stride: int, outputs: int) -> int:
    """How many sets of ``stride`` bytes, with ``outputs`` bytes of outputs each, have right answers kept."""
    # Answers are kept in float64, the reference's own beside them.
    return min(sets, MOST_JUDGED, max(LEAST_JUDGED, ORACLE_BYTES // (stride + 3 * outputs + 1)))


def fits(case: Case, shape: str, drawn: Drawn) -> bool:
    """Whether the inputs of the derived ``case`` can stand in the place of a set of a pool at ``shape``."""
    if case.shape != shape or STRIDED in parts(case.kind):
        return False
    if len(drawn.inputs) > 1:
        return case.inputs.size <= drawn.stride
    return _form(case.inputs) == _form(drawn.inputs[0])


def write_inputs(case: Case, inputs: Values, file: int, position: int) -> None:
    """Write the inputs of ``case`` into a pool's ``file`` as the set at ``position``, laid out as ``inputs``."""
    for source, target in zip(specs_of(case.inputs.items), specs_of(inputs.items), strict=True):
        os.pwrite(file, os.pread(case.file, source.size, source.position), position + target.position)


def _form(inputs: Values) -> list[Any]:
    """Everything but where tensors lie in their file."""
    items = msgspec.to_builtins(inputs.items)
    return [_without_position(item) for item in items]


def _without_position(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _without_position(value) for key, value in item.items() if key != "position"}
    return [_without_position(value) for value in item] if isinstance(item, list | tuple) else item
