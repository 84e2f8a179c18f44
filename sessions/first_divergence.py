"""How a replay says that a fresh agent and the log differ: which event, where in it, and both sides."""

from dataclasses import dataclass
from typing import Any

import msgspec

from ..schemas import Envelope, Event, ReplayDivergence, encode, event_tag

_SHOWN = 60
"""Characters of a value in a sentence; the error's attributes hold both sides whole."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a fresh agent says in answer to a recorded event."""

    id: str
    role: str
    node: str
    event: Event
    cause: str
    """Id of the event it answers."""
    failed: str = ""
    """Set where the fresh agent raised instead: then the log must hold a step that was given up."""


def departed(session: str, seq: int, envelope: Envelope, event: Event, output: Output) -> ReplayDivergence:
    """Both sides said something, but not the same."""
    if output.failed:
        detail = f"the fresh {output.role} fails instead ({_short(output.failed)})"
    else:
        path, recorded, replayed = _difference(envelope, event, output)
        detail = f"{path} is {_short(recorded)} in the log, {_short(replayed)} from a fresh {output.role}"
    return ReplayDivergence(
        f"replay of {session} diverges at {_named(envelope, seq)}: {detail}",
        session=session,
        event=envelope.id,
        seq=seq,
        recorded=_json(event),
        replayed=output.failed or _json(output.event),
    )


def invented(session: str, seq: int, envelope: Envelope, beside: Output | None) -> ReplayDivergence:
    """The log holds an output that no fresh agent said."""
    instead = f"says {_tag(beside.event)} instead" if beside else "says nothing there"
    return ReplayDivergence(
        f"replay of {session} diverges at {_named(envelope, seq)}: a fresh {envelope.agent} {instead}",
        session=session,
        event=envelope.id,
        seq=seq,
        recorded=bytes(envelope.body).decode(),
        replayed=_json(beside.event) if beside else None,
    )


def missing(session: str, output: Output, seq: int, answer: Envelope) -> ReplayDivergence:
    """A fresh agent said something that the log lacks, although the log has an answer to it."""
    because = f", which event {answer.id} (seq {seq}) answers"
    about = f" about {output.node}" if output.node else ""
    return ReplayDivergence(
        f"replay of {session} diverges: the log lacks {_tag(output.event)} {output.id}{about}{because}; "
        f"a fresh {output.role} says it in answer to {output.cause}",
        session=session,
        event=output.id,
        seq=None,
        recorded=None,
        replayed=output.failed or _json(output.event),
    )


def first_difference(left: Any, right: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """Path of the first place where two JSON-like values differ, and both values there; None if they are equal."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            difference = first_difference(left.get(key), right.get(key), f"{path}.{key}" if path else str(key))
            if difference is not None:
                return difference
        return None
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (left_item, right_item) in enumerate(zip(left, right, strict=True)):
            difference = first_difference(left_item, right_item, f"{path}[{index}]")
            if difference is not None:
                return difference
        return None
    return None if left == right else (path, left, right)


def _difference(envelope: Envelope, event: Event, output: Output) -> tuple[str, Any, Any]:
    if envelope.node != output.node:
        return "node", envelope.node, output.node
    if envelope.cause != output.cause:
        return "cause", envelope.cause, output.cause
    return first_difference(msgspec.to_builtins(event), msgspec.to_builtins(output.event)) or ("body", "", "")


def _named(envelope: Envelope, seq: int) -> str:
    about = f" about {envelope.node}" if envelope.node else ""
    return f"event {envelope.id} (seq {seq}, {envelope.tag}{about})"


def _tag(event: Event) -> str:
    return event_tag(type(event))


def _json(event: Event) -> str:
    return encode(event).decode()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return repr(shown) if isinstance(value, str) else shown
