"""What a look at the machine comes out with."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check came out."""

    ok = "ok"
    warn = "warn"
    """It runs, but results are worse or less certain."""
    fail = "fail"
    """No search runs until this is mended."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    """What was found."""
    way_out: str = ""
    """What to do; empty if ok."""
