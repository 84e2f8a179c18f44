"""Who hears what happens to a session: the displays of the command line, benchmarks, Python's notices."""

from collections.abc import Collection
from typing import Protocol

from ..graph.session_graph import SearchGraph
from ..schemas import Envelope, Event
from .swarm import Swarm


class Shown(Protocol):
    """What can be shown: a search that runs, or one that is played from the log."""

    @property
    def session(self) -> str:
        """Its id."""

    @property
    def graph(self) -> SearchGraph:
        """As far as it is."""

    @property
    def swarm(self) -> Swarm | None:
        """Who works on it in this process."""


class Spectator:
    """Hears what happens to one session, and does nothing. Override what is of interest."""

    failures: Collection[str] = ()
    """Why syntheses failed, as far as it can be read when the session is over."""

    def notice(self, text: str) -> None:
        """Something is going on outside the session's events, and takes a moment."""

    def say(self, text: str) -> None:
        """Something that a person should know afterwards too."""

    def waiting(self, text: str) -> None:
        """What the session waits for, and (with an empty text) that it does no longer."""

    def opened(self, search: Shown) -> None:
        """The session exists from now on."""

    def show(self, envelope: Envelope, event: Event) -> None:
        """An event of that session; it is folded into the search's graph already."""
