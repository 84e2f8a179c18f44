"""A step of a role that asked a model, in a replay: the recorded answers stand in for the model."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..agents.consulting import Consultation, Question
from ..schemas import Envelope, Event, ModelCalled


@dataclass
class Asking:
    """A step that waits for what the model answered."""

    role: str
    cause: Envelope
    """The event that the step answers."""
    consultation: Consultation[Any]
    replies: Callable[[Any], Sequence[Event]]
    """What the role says of the consultation's outcome."""
    calls: list[ModelCalled] = field(default_factory=list)


def asks_the_same(call: ModelCalled, question: Question) -> bool:
    """Whether a recorded request asks ``question``, to the byte; a follow-up repeats the question it follows."""
    system = [text for role, text in messages(call.request) if role in ("system", "developer")]
    users = [text for role, text in messages(call.request) if role == "user"]
    return system == [question.system] and users[:1] == [question.text]


def messages(request: str) -> Iterator[tuple[str, str]]:
    """Role and text of each message of a recorded request, in either vendor's format."""
    try:
        body = json.loads(request)
    except ValueError:
        yield "user", request
        return
    if body.get("system"):
        yield "system", _text(body["system"])
    for message in body.get("messages", ()):
        yield message["role"], _text(message.get("content"))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    return "\n\n".join(block.get("text", "") for block in blocks if block.get("type") == "text")
