"""One question of a role to a model, without I/O: :func:`settled` says what the answers come to.

A live agent and a replay settle the same recorded answers by the same function, so a model's decision replays without
a network. The rules' own answer is the fallback, whatever goes wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ...schemas import ModelCalled, RoleDecided, RoleModel, Schema
from ..runtime import Agent, Answer, Work

ROUNDS = 2
"""Answers of a model that are read; an unusable first one is said to be so."""

_FOLLOW_UP = "That cannot be used: {reason}. Answer again, with the JSON object alone."

Outcome = TypeVar("Outcome")


class Unusable(Exception):
    """An answer that decides nothing; one sentence says why."""


class Question(Schema, frozen=True, kw_only=True):
    """What a model is asked."""

    system: str
    """The same for every question of the role."""
    text: str
    answer_schema: dict[str, Any] | None = None
    """JSON schema of the answer, for servers that keep to one; None where the session asks in words alone. The answer
    is read in the same way."""


@dataclass(frozen=True)
class Reading(Generic[Outcome]):
    """What an answer means."""

    outcome: Outcome
    why: str
    """In the model's words."""


@dataclass(frozen=True)
class Consultation(Generic[Outcome]):
    """A question, how its answer is read, and what holds without one."""

    asker: RoleModel
    question: Question
    read: Callable[[str], Reading[Outcome]]
    """Raises Unusable."""
    fallback: Outcome

    def complaint(self, completion: str) -> str:
        """What the model is told of an answer that cannot be used; empty if it can."""
        try:
            self.read(completion)
        except Unusable as error:
            return _FOLLOW_UP.format(reason=error)
        return ""


@dataclass(frozen=True)
class Asked:
    """What came of asking."""

    calls: tuple[ModelCalled, ...] = ()
    """Every try, failed ones included."""
    fault: str = ""
    """Why no further one was made; empty if none was needed."""


class Adviser(Protocol):
    """Asks models on behalf of roles."""

    async def ask(self, work: Work, asker: RoleModel, question: Question, complaint: Callable[[str], str]) -> Asked:
        """Ask until ``complaint`` has none, at most :data:`ROUNDS` times. Whatever goes wrong is in the answer."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class AdvisedAgent(Agent):
    """A role that asks a model where the session names one for it."""

    def __init__(self, adviser: Adviser | None = None) -> None:
        """Without ``adviser`` the rules decide."""
        self._adviser = adviser

    async def close(self) -> None:
        """Close the connections to models."""
        if self._adviser is not None:
            await self._adviser.close()


async def consult(
    adviser: Adviser | None, work: Work, consultation: "Consultation[Outcome]"
) -> tuple[list[Answer], Outcome]:
    """Ask; the events to publish, and what holds."""
    if adviser is None:
        asked = Asked(fault="this process asks no models")
    else:
        asked = await adviser.ask(work, consultation.asker, consultation.question, consultation.complaint)
    decided, outcome = settled(consultation, asked.calls, asked.fault)
    return [*(Answer(call) for call in asked.calls), Answer(decided)], outcome


def settled(
    consultation: "Consultation[Outcome]", calls: Sequence[ModelCalled], fault: str = ""
) -> tuple[RoleDecided, Outcome]:
    """What ``calls`` decide: the first usable answer, or else the fallback with the reason."""
    reading, reason = None, ""
    for call in calls:
        if call.error:
            reason = reason or call.error
            continue
        try:
            reading = consultation.read(call.completion)
            break
        except Unusable as error:
            reason = str(error)
    asker = consultation.asker
    decided = RoleDecided(
        role=asker.role,
        backend=asker.backend,
        model=asker.model,
        by_model=reading is not None,
        reason=reading.why if reading is not None else reason,
        fault="" if reading is not None else fault,
    )
    return decided, consultation.fallback if reading is None else reading.outcome
