"""Draft many without feedback, then deepen the best (KernelEvolve's greedy policy, with a little doubt).

Source: KernelEvolve, section 4: phases draft and expansion; the share of doubt is ours, because a greedy step follows a
noisy measurement.
"""

from itertools import islice
from random import Random
from typing import ClassVar

from ....schemas import OUTSIDE, Advice, Intent, MemoryOperator, SessionOpened
from ..authors import author_due
from ..state import PlannedNode, PlannerState
from .base import Choice, draft_count

REPAIRABLE_SHARE = 0.5
"""How often a broken draft is repaired rather than the best deepened, while there is nothing correct yet: always."""

MANY_FAILED = 3
"""Siblings that did not help from which on all of them are looked at, along with the parent's trajectory."""


LAST = 3
"""The last candidates of a budget deepen the best. Of 48 searches for four candidates, all with the same draw, the last
deepened a runner-up each time."""


class Greedy:
    """Option: ``doubt``, the share of steps that deepen a runner-up instead of the best."""

    name: ClassVar[str] = "greedy"

    def __init__(self, options: dict[str, int | float | str]) -> None:
        self._doubt = float(options.get("doubt", 0.2))

    def choose(self, state: PlannerState, rng: Random) -> Choice:
        """Draft until the draft phase is over, then repair what is broken or deepen what is good."""
        assert state.opened is not None
        if len(state.own()) < draft_count(state.opened):
            return Choice("", Intent.draft, MemoryOperator.clean_slate)
        broken = _first_unrepaired(state)
        correct = state.correct()
        if broken is not None and (not correct or rng.random() < REPAIRABLE_SHARE):
            return Choice(broken.name, Intent.repair, MemoryOperator.inherit, broken.advice)
        if not correct:
            return Choice("", Intent.draft, MemoryOperator.clean_slate)
        place = self._rank(len(correct), rng)
        parent = correct[0 if _is_for_the_best(state, state.opened) else place]
        return Choice(parent.name, Intent.improve, _memory(parent, state, rng), _drawn(parent.advice, rng))

    def _rank(self, count: int, rng: Random) -> int:
        if count > 1 and rng.random() < self._doubt:
            return rng.randrange(1, min(count, 4))
        return 0


def _is_for_the_best(state: PlannerState, opened: SessionOpened) -> bool:
    """Whether it is no runner-up's turn: nothing would be made of what that leads to, or the next node is for an
    outside author, whose hours are worth more than doubt."""
    is_last = opened.awaits_verdicts and opened.budget - len(state.own()) <= LAST
    return is_last or (opened.opens_tasks and author_due(state, opened) == OUTSIDE)


def _first_unrepaired(state: PlannerState) -> PlannedNode | None:
    """A broken node with source, no child yet, that is not itself a failed repair of a failed repair."""
    for node in state.broken():
        if node.synthesis_failed:
            continue
        parent = state.nodes.get(node.plan.parent)
        if node.plan.intent is Intent.repair and parent is not None and parent.plan.intent is Intent.repair:
            continue
        return node
    return None


def _memory(parent: PlannedNode, state: PlannerState, rng: Random) -> MemoryOperator:
    """Look at siblings once the parent has some that did not help; combine when they are many."""
    failures = (name for name in parent.children if state.nodes[name].fitness <= parent.fitness)
    failed = sum(1 for _ in islice(failures, MANY_FAILED))
    if not failed:
        return MemoryOperator.inherit
    return MemoryOperator.combine if failed == MANY_FAILED or rng.random() < 0.5 else MemoryOperator.siblings


def _drawn(advice: tuple[Advice, ...], rng: Random) -> tuple[Advice, ...]:
    """The advice in random order by weight (Efraimidis and Spirakis 2006), so that siblings try different things."""
    return tuple(sorted(advice, key=lambda item: rng.random() ** (1.0 / max(item.weight, 1e-6)), reverse=True))
