"""Types of a pass over a row in C++: its loop, and what it computes at every point."""

from dataclasses import dataclass

from ..ir.loops import Accumulation, Store
from ..ir.scalar import Scalar


@dataclass(frozen=True)
class Item:
    """Something done at every point of a pass: accumulate, write, or keep in the row's buffer."""

    value: Scalar
    accumulation: Accumulation | None = None
    store: Store | None = None
    keep: str = ""
    """Buffer of the row that it is kept in."""


@dataclass(frozen=True)
class Range:
    """The innermost loop: variable and bounds, as C++."""

    variable: str
    low: str
    high: str


def indent(lines: list[str]) -> list[str]:
    """Lines two spaces further in."""
    return [f"  {line}" if line else line for line in lines]
