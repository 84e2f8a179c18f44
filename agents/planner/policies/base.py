"""What a policy is asked."""

from dataclasses import dataclass
from random import Random
from typing import ClassVar, Protocol

from ....schemas import Advice, Intent, MemoryOperator, SessionOpened
from ..state import PlannerState

DRAFTS = 10
"""Nodes without feedback at a session's start (KernelEvolve drafts ten)."""


def draft_count(opened: SessionOpened) -> int:
    """How many nodes, seeds among them, need no feedback: the option ``drafts``, but at most a third of the budget.

    A fork has feedback already and drafts nothing.
    """
    if opened.origin is not None:
        return 0
    return min(int(opened.policy_options.get("drafts", DRAFTS)), max(1, opened.budget // 3))


@dataclass(frozen=True)
class Choice:
    """Where the next node starts from, and what it is for."""

    parent: str
    intent: Intent
    memory: MemoryOperator
    advice: tuple[Advice, ...] = ()
    second: str = ""
    """Second parent; empty for none."""
    seed: int = 0
    """Seed kernel that is measured, from 1; 0 for none."""


class Policy(Protocol):
    """Picks the next node. Pure: the state and the generator are all it may look at."""

    name: ClassVar[str]

    def __init__(self, options: dict[str, int | float | str]) -> None:
        """Take the session's ``policy_options``; unknown ones are ignored so that old logs replay."""
        ...

    def choose(self, state: PlannerState, rng: Random) -> Choice:
        """The next node to plan."""
        ...
