"""A step of a role that asked a model, in a replay: the recorded answers stand in for the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..agents.consulting import Consultation, Question
from ..schemas import Envelope, Event, ModelCalled
from .conversation import messages


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
