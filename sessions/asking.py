"""A step of a role that asked a model, in a replay: the recorded answers stand in for the model."""

import json
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
    schema = _schema_of(call.request)
    # A server that refused the schema was asked without one.
    return system == [question.system] and users[:1] == [question.text] and schema in (None, question.answer_schema)


def _schema_of(request: str) -> Any:
    """The schema of the answer in a recorded request, in either vendor's format; None if it has none."""
    try:
        body = json.loads(request)
    except ValueError:
        return None
    form = body.get("output_config", {}).get("format") or body.get("response_format", {}).get("json_schema") or {}
    return form.get("schema")
