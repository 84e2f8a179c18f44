"""What a session answers to a request, and how that is waited for."""

from collections.abc import Callable
from typing import TypeVar

from ...graph.tasks import HandIn, Permit
from ...schemas import (
    ConfirmationPlanned,
    Event,
    KernelswarmError,
    NodePlanned,
    SessionClosed,
    TaskRefused,
)
from .following import Followed

Reply = TypeVar("Reply", bound=Event)


STARTING = (
    "a search that was started just now validates its problem before it opens its session: "
    "`kernelswarm tasks claim --wait 600` waits for that"
)
"""What to say where there is no session yet."""


class Unserved(KernelswarmError):
    """Nobody answers for a session: its process has ended, or is starting."""


class Refused(KernelswarmError):
    """The session refuses a request; the sentence says why, and what to do."""


async def answered(followed: Followed, request: str, kind: type[Reply], wait_s: float) -> tuple[str, Reply]:
    """The answer to ``request``, and the node that it speaks of.

    Raises:
        Refused: it is refused.
        Unserved: there was none in time.
    """

    def answer(now: Followed) -> tuple[str, Reply] | None:
        answers = now.answers.get(request, ())
        return next(((node, event) for node, event in answers if isinstance(event, kind)), None)

    await followed.until(lambda now: bool(answer(now) or refusal(now, request)), wait_s)
    if (reached := answer(followed)) is not None:
        return reached
    if reason := refusal(followed, request):
        raise Refused(reason)
    session = followed.graph.session
    raise Unserved(
        f"session {session} did not answer within {wait_s:g} s: nobody serves it just now, or it still starts. What "
        f"was asked stays on the bus and is answered once it goes on (`kernelswarm resume {session}`)"
    )


def refusal(followed: Followed, request: str) -> str:
    """Why a request is refused; empty if it is not. Nobody says so any more once the session is closed."""
    refusals: list[Event | HandIn | Permit] = [event for _, event in followed.answers.get(request, ())]
    if followed.graph.closed is not None:
        refusals += [ruling.outcome for ruling in followed.graph.tasks.rulings.get(request, ())]
    return next((refused.reason for refused in refusals if isinstance(refused, TaskRefused)), "")


def judged(node: str) -> Callable[[Followed], bool]:
    """Whether nothing more is to come for ``node``, confirmation aside."""

    def is_judged(now: Followed) -> bool:
        record = now.graph.nodes.get(node)
        return now.graph.closed is not None or (record is not None and record.diagnosis is not None)

    return is_judged


def gone_on_from(node: str) -> Callable[[Followed], bool]:
    """Whether the planner has answered the diagnosis of ``node``: then the tasks that follow from it are there."""

    def is_planned_on(now: Followed) -> bool:
        ids = now.graph.nodes[node].event_ids
        answers = [event for id in ids for _, event in now.answers.get(id, ())]
        return any(isinstance(event, NodePlanned | ConfirmationPlanned | SessionClosed) for event in answers)

    return is_planned_on
