"""Several candidates of the policy for one node, of which a model chooses. Pure: the model's word comes as an event."""

from collections.abc import Callable
from random import Random

import msgspec

from ...schemas import ChoiceMade, ChoicesOffered, NodeChoice, SessionOpened
from .policies import Choice
from .state import Offer, PlannerState

DRAWS = 8
"""How often the policy is asked for another candidate."""
MOST_CHOICES = 4


def asks_a_model(opened: SessionOpened) -> bool:
    """Whether the session names a model for the planner."""
    return any(role.role == "planner" for role in opened.roles)


def candidates(first: Choice, draw: Callable[[Random], Choice], seed: str) -> list[Choice]:
    """``first``, and what the policy would choose with other luck: other parents, memory or advice come first."""
    out = [first]
    for number in range(DRAWS):
        other = draw(Random(f"{seed}/choice/{number}"))
        if _what(other) not in map(_what, out):
            out.append(other)
    return out[:MOST_CHOICES]


def offer(state: PlannerState, choices: list[Choice], number: int, draw: int) -> ChoicesOffered:
    """Let a model choose; nothing is planned until it has."""
    state.offer = Offer(
        number=number,
        draw=draw,
        choices=tuple(msgspec.convert(choices, list[NodeChoice], from_attributes=True)),
    )
    return ChoicesOffered(number=number, choices=state.offer.choices)


def chosen(state: PlannerState, event: ChoiceMade) -> tuple[Choice, int] | None:
    """What was chosen, and the draw of its node; None if nothing is on offer any more."""
    offered = state.offer
    if offered is None or offered.number != event.number:
        return None
    state.offer = None
    if state.finishing or not 0 <= event.choice < len(offered.choices):
        return None
    picked = offered.choices[event.choice]
    return Choice(picked.parent, picked.intent, picked.memory, picked.advice, picked.second), offered.draw


def _what(choice: Choice) -> tuple[str, ...]:
    first = choice.advice[0].action.value if choice.advice else ""
    return choice.parent, choice.intent.value, choice.memory.value, choice.second, first
