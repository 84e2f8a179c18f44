"""Where a forked session came from."""

from ..base import Schema


class Origin(Schema, frozen=True, kw_only=True):
    """Where a forked session came from. Nothing is copied: readers go through to the parent's events."""

    session: str
    """The parent."""
    node: str
    """Node of the parent that is gone on from; empty for a fork as of an event."""
    at: str = ""
    """Id of the last event of the parent that the fork knows; empty: the diagnosis of ``node``."""
