"""Where a planner that asks a model lets it choose."""

from ..base import Schema
from ..diagnosis import Advice
from .base import Event
from .plan import Intent, MemoryOperator


class NodeChoice(Schema, frozen=True, kw_only=True):
    """A node that the policy could plan next; fields as in NodePlanned."""

    parent: str
    intent: Intent
    memory: MemoryOperator
    advice: tuple[Advice, ...] = ()
    second: str = ""


class ChoicesOffered(Event, frozen=True, kw_only=True, tag="node.choices_offered.v1"):
    """The policy's candidates for the next node, which the envelope names; nothing else is planned meanwhile."""

    number: int
    """Position that the node will have among the session's nodes, from 1."""
    choices: tuple[NodeChoice, ...]
    """At least two; the policy's own choice first."""


class ChoiceMade(Event, frozen=True, kw_only=True, tag="node.choice_made.v1"):
    """One of the candidates was chosen; the planner plans it, unless the search is over."""

    number: int
    """As in ChoicesOffered."""
    choice: int
    """Which of them, from 0. 0 is the policy's own, which holds where no model decides."""
    reason: str = ""
    """Why, in the model's words; empty where the policy decides."""
