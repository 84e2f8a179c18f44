"""One draft's result: a line of the CSV."""

from enum import StrEnum

import msgspec

from ...schemas import Schema


class Outcome(StrEnum):
    """What became of a draft, at the captured sizes or at others."""

    correct = "correct"
    """It has kernels of its own, and is right."""
    left = "left"
    """It leaves every operator to PyTorch, and is right: there is nothing to generate."""
    compiled = "compiled"
    """Its kernels compile; without a GPU nothing runs them."""
    not_drafted = "not_drafted"
    """There is no draft: the sentence says why."""
    wrong = "wrong"
    """Its numbers, shapes, dtypes or what it leaves behind are not the reference's."""
    raised = "raised"
    """It raises where the reference does not."""
    not_compiled = "not_compiled"
    defect = "defect"
    """The capture or the generator raised something that is no sentence."""
    crashed = "crashed"
    """The process ended, killed by a signal."""
    late = "late"
    """It took longer than it may."""
    none = "none"
    """There are no other sizes: the reference takes none that could be made, or has no sizes."""
    excluded = "excluded"
    """No answer is right: the operator is random, sparse or ill-conditioned on this sample; the sentence says which."""


RIGHT = frozenset({Outcome.correct, Outcome.left, Outcome.compiled})
"""Nothing is to be mended."""
UNCOUNTED = frozenset({Outcome.none, Outcome.excluded})
"""Neither right nor wrong."""


class Row(Schema, frozen=True, kw_only=True):
    """A sample's result in one language. Fields are the CSV's columns in their order."""

    list: str
    """``modules`` or ``ops``."""
    name: str
    """As PyTorch's list has it, with the variant's name behind a dot."""
    sample: int
    """Which of its samples, counted from 0; -1 where all of them are meant."""
    dtype: str
    language: str
    """``cpp`` or ``triton``."""
    captured: Outcome
    """At the sizes that the draft was captured at."""
    other: Outcome = Outcome.none
    """At sizes that it was not captured at, where the reference takes others."""
    kernels: int = 0
    """Generated kernels in the draft."""
    cause: str = ""
    """Why it is a miss, as a sentence; empty if it is none."""
    inputs: str = ""
    """Dtypes and shapes of the sample's tensors."""
    seconds: float = 0.0
    """Of capture, draft, compilation and comparison."""
    versions: str = ""
    """Of kernelswarm and torch."""

    @property
    def is_right(self) -> bool:
        """Whether it is counted and nothing is to be mended."""
        return self.captured in RIGHT and self.other in RIGHT | {Outcome.none}


COLUMNS = Row.__struct_fields__


def to_cells(row: Row) -> dict[str, str]:
    """The row as text by column."""
    return {name: str(value) for name, value in msgspec.structs.asdict(row).items()}
