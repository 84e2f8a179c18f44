"""Messages about calls that an accelerator replays as one graph."""

from ....schemas import Schema

COLD = "cold"
"""A call on each input set, none of which lies in a cache; weights neither."""
WARM = "warm"
"""As many calls on the first set: all that fits into the cache lies there."""
APART = "apart"
"""As ``COLD``, but each set is intact only from directly before its call to directly after it."""


class Record(Schema, frozen=True, kw_only=True, tag="record"):
    """Record a call on each input set as one graph."""

    name: str = ""
    """Which baseline; ignored by a candidate."""
    flush: bool = False
    """Whether the last-level cache is flushed before each call: its weights would stay there from call to call."""


class Recorded(Schema, frozen=True, kw_only=True, tag="recorded"):
    """How it went."""

    reason: str = ""
    """Why the calls cannot be recorded; empty if they are."""


class TakeCall(Schema, frozen=True, kw_only=True, tag="take_call"):
    """Put what a call of the last replay left into a slot."""

    call: int
    slot: int
