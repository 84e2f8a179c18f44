"""Where a fork begins: found in the parent's events before anything is opened, so that a slip costs a sentence."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from ..agents.synthesizer.authors import asks_a_model
from ..agents.synthesizer.backend import GIVEN
from ..agents.synthesizer.role_models import split_models
from ..graph.inheritance import LoggedEvent, is_diagnosis
from ..schemas import CandidateProposed, InputError, NodeDiagnosed, NodePlanned, Origin, SessionClosed, SessionOpened
from .recorded_session import RecordedSession
from .search_options import ForkChoices, SearchOptions, given

_INHERITED = ("budget", "against", "measure", "seed", "policy", "language")


@dataclass(frozen=True)
class ForkPoint:
    """A place in another session to go on from."""

    opened: SessionOpened
    """The parent's first event."""
    origin: Origin

    def options(self, **choices: Unpack[ForkChoices]) -> SearchOptions:
        """How the fork searches: as its parent did, but for what is chosen. Limits of time, speedup and money do not.

        Raises:
            TypeError: there is no such option.
        """
        was, chosen = self.opened, given(choices)
        # A session that judged files of the user's has none left to judge.
        before = "playbook" if was.synthesizer == GIVEN else was.synthesizer
        inherited: dict[str, Any] = {name: getattr(was, name) for name in _INHERITED} | {"synthesizer": before}
        if chosen.get("policy", was.policy) == was.policy:
            inherited["policy_options"] = dict(was.policy_options)
        if chosen.get("synthesizer", before) == before:
            # Older sessions of authors that ask none may hold a model.
            inherited |= {"model": was.model if asks_a_model(before) else "", "base_url": was.base_url}
        options = SearchOptions(**(inherited | chosen))
        return replace(options, model=self._models(options.model))

    def _models(self, text: str) -> str:
        """``text`` with the parent's models of roles, unless it names some itself."""
        authors, roles = split_models(text)
        kept = [] if roles else [f"{role.role}={role.backend}:{role.model}" for role in self.opened.roles]
        return ",".join(filter(None, [text if roles else authors, *kept]))


def fork_point(parent: RecordedSession, node: str, at: str = "") -> ForkPoint:
    """The place that a user names: a node, an event, or a node as of an event.

    Args:
        parent: the session to fork.
        node: goes on from this node and its ancestors, knowing what the parent knew when it was diagnosed.
        at: id of an event, its beginning, or its place in the log: everything the parent knew then is known.

    Raises:
        InputError: there is no such node or event (the nearest is named), or nothing there to go on from.
    """
    if not node and not at:
        raise InputError("name what to go on from: a node with --node, or an event with --at")
    own = [(envelope, event) for _, envelope in parent.events if (event := envelope.event()) is not None]
    opened = next((event for _, event in own if isinstance(event, SessionOpened)), None)
    if opened is None:
        raise InputError(f"session {parent.id} has no opening event in the log: import it whole")
    if at:
        last = parent.event_id(at)
        events = [*parent.before, *_until(parent, last)]
        if node:
            _diagnosed(events, parent.id, node, f" by event {last}")
        elif not any(isinstance(event, NodeDiagnosed) and event.fitness > 0 for _, event in events):
            raise InputError(f"session {parent.id} had no correct candidate by event {last}: name a later one")
        return ForkPoint(opened, Origin(session=parent.id, node=node, at=last))
    # An inherited node belongs to the session that planned it: that one is forked, at the same place.
    owner, diagnosis = _diagnosed([*parent.before, *own], parent.id, node, " yet")
    return ForkPoint(opened, Origin(session=owner, node=node, at=diagnosis))


def _until(parent: RecordedSession, last: str) -> list[LoggedEvent]:
    events: list[LoggedEvent] = []
    for _, envelope in parent.events:
        event = envelope.event()
        if event is not None:
            events.append((envelope, event))
        if envelope.id == last:
            break
    return events


def _diagnosed(events: Sequence[LoggedEvent], session: str, node: str, when: str) -> tuple[str, str]:
    """Who planned ``node``, and the id of its first diagnosis.

    Raises:
        InputError: it is not there, not diagnosed, or has no candidate.
    """
    names = list(dict.fromkeys(envelope.node for envelope, event in events if isinstance(event, NodePlanned)))
    if node not in names:
        ranged = f"; there is {names[0]} to {names[-1]}" if names else "; it has none"
        raise InputError(f"session {session} has no node {node!r}{_near(node, names) or ranged}")
    node_events = [entry for entry in events if entry[0].node == node]
    diagnosis = next((envelope for envelope, event in node_events if is_diagnosis(envelope, event, node)), None)
    if diagnosis is None:
        raise InputError(f"node {node} of {session} was not diagnosed{when}: {_way_out(events, session, names)}")
    if not any(isinstance(event, CandidateProposed) for _, event in node_events):
        parent = next((event.parent for _, event in node_events if isinstance(event, NodePlanned)), "")
        instead = f"its parent {parent}" if parent else "another node"
        raise InputError(f"node {node} of {session} has no candidate, its synthesis failed: fork from {instead}")
    return diagnosis.session, diagnosis.id


def _way_out(events: Sequence[LoggedEvent], session: str, names: Sequence[str]) -> str:
    others = [name for name in names if any(is_diagnosis(envelope, event, name) for envelope, event in events)]
    if others:
        return f"fork from one that was ({', '.join(others[:5])}{', …' if len(others) > 5 else ''})"
    if any(isinstance(event, SessionClosed) for _, event in events):
        return "none was before it was closed: begin a new session with `kernelswarm optimize`"
    return f"none was so far: wait, or if nobody works on it `kernelswarm resume {session}`"


def _near(name: str, names: Sequence[str]) -> str:
    matches = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    # Two well-formed names of nodes are alike and mean nothing to each other.
    return f"; did you mean {matches[0]!r}?" if matches and len(matches[0]) != len(name) else ""
