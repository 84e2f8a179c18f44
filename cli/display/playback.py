"""Plays a session from the log, at a multiple of recorded time, through the display of a running search."""

import asyncio
import time
from contextlib import nullcontext

from ...graph.session_graph import SearchGraph
from ...sessions.recorded_session import RecordedSession
from ...sessions.replay import Replay, ReplayReport
from ...sessions.spectator import Spectator
from .live import open_display

LONGEST_PAUSE_S = 60.0
"""Recorded seconds without an event after which the rest of the pause is skipped: a killed session may lie for days."""


class ReplayedSearch:
    """A replay as the display wants to see a search."""

    swarm = None

    def __init__(self, replaying: Replay) -> None:
        self._replaying = replaying

    @property
    def session(self) -> str:
        """Its id."""
        return self._replaying.session

    @property
    def graph(self) -> SearchGraph:
        """As far as it was fed."""
        return self._replaying.graph


async def play(
    replaying: Replay, past: RecordedSession, stop: str, speed: float | None, *, quiet: bool
) -> ReplayReport:
    """Feed ``past`` up to the event ``stop`` (empty: to its end); show it at ``speed`` if there is one.

    Raises:
        ReplayDivergence: the first difference.
    """
    started = time.monotonic()
    scope = (
        nullcontext(Spectator())
        if speed is None
        else open_display(quiet=quiet, clock=lambda: (time.monotonic() - started) * speed)
    )
    until = past.events[0][1].at_ns
    with scope as display:
        display.opened(ReplayedSearch(replaying))
        for seq, envelope in past.events:
            pause_s = min(max(0, envelope.at_ns - until) / 1e9, LONGEST_PAUSE_S) / speed if speed is not None else 0.0
            until = max(until, envelope.at_ns)
            await asyncio.sleep(pause_s)  # however short: Ctrl-C comes between two events
            event = envelope.event()
            replaying.feed(seq, envelope, event)
            if event is not None:
                display.show(envelope, event)
            if envelope.id == stop:
                return replaying.finish(until=stop)
    return replaying.finish()
