"""A session out of the log as replay, resume and diff want it: its events, and what it knew before it was opened."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import store
from ..graph.inheritance import LoggedEvent, inherited
from ..graph.session_graph import SearchGraph
from ..schemas import Envelope, InputError, SessionOpened
from ..store import UnknownSession

if TYPE_CHECKING:
    from ..bus import Bus

LONG_NUMBER = 8
"""Digits from which on a number may be the beginning of an event's id, and not only a place in the log."""


@dataclass(frozen=True)
class RecordedSession:
    """A session's whole history."""

    id: str
    events: "Sequence[store.Recorded]"
    """Its own events with their places in the log, oldest first; at least one."""
    before: Sequence[LoggedEvent] = ()
    """What a fork inherits, oldest first."""

    def event_id(self, name: str) -> str:
        """Id of the event that a user names: by its place in the log, its id, or the beginning of its id.

        Raises:
            InputError: there is none, or there are several.
        """
        ids = {str(seq): envelope.id for seq, envelope in self.events}
        if name in ids:
            return ids[name]
        # A short number is a place: one beyond the session's must not stand for an id that happens to begin like it.
        is_place = name.isdecimal() and len(name) < LONG_NUMBER
        matches = [id for id in ids.values() if id.startswith(name) and not is_place]
        if len(matches) > 1 and name not in matches:
            raise InputError(
                f"event {name!r} begins {len(matches)} ids: write more of it, for example {matches[0][: len(name) + 8]}"
            )
        if not matches:
            near = difflib.get_close_matches(name, ids.values(), 1, cutoff=0.5)
            first, last = self.events[0][0], self.events[-1][0]
            hint = f"did you mean {near[0]!r}?" if near else f"its events have seq {first} to {last}"
            raise InputError(f"session {self.id} has no event {name!r}; {hint}")
        return name if name in matches else matches[0]

    def graph(self) -> SearchGraph:
        """The search as far as it went."""
        graph = SearchGraph(self.id, self.before)
        for _, envelope in self.events:
            event = envelope.event()
            if event is not None:
                graph.apply(envelope, event)
        return graph


async def read_session(
    home: Path, session: str, *, bus: "Bus | None" = None, verify: bool = False, to_end: bool = True
) -> RecordedSession:
    """Read ``session`` from the log of ``home``, or from the one that a recorder on ``bus`` keeps.

    Args:
        home: where the log lies.
        session: its id.
        bus: of the cluster whose recorder has the log.
        verify: follow the chain of hashes over its events, and those of the sessions it was forked from.
        to_end: with ``verify``, follow it to the log's last event where one of them is open.

    Raises:
        UnknownSession: there is no such session.
        LogCorrupted: with ``verify``, an event is not what was written; the first is named.
        InputError: it is a fork, and a session that it comes from is not in the log.
        StoreError, BusError: the log cannot be read.
    """

    async def envelopes(parent: str) -> list[Envelope]:
        try:
            recorded = await store.read_recorded(home, parent, bus=bus, verify=verify, to_end=to_end)
            return [envelope for _, envelope in recorded]
        except UnknownSession as error:
            raise InputError(
                f"session {session} is a fork and needs session {parent}, which is not in this log: import that as well"
            ) from error

    events = await store.read_recorded(home, session, bus=bus, verify=verify, to_end=to_end)
    opened = next((event for _, envelope in events if isinstance(event := envelope.event(), SessionOpened)), None)
    before = [] if opened is None else await inherited(opened, envelopes)
    return RecordedSession(session, events, before)
