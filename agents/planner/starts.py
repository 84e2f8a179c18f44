"""Kernels that exist already: measured again before anything new is planned, and injected into the search later."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from ...schemas import Intent, MemoryOperator
from .policies import Choice
from .state import PlannedNode, PlannerState


def starts(state: PlannerState) -> list[Choice]:
    """What is measured first, in order: what a fork goes on from, then the seeds."""
    assert state.opened is not None
    forked = [Choice(name, Intent.remeasure, MemoryOperator.inherit) for name in state.starts]
    seeds = range(1, len(state.opened.seed_kernels) + 1)
    return [*forked, *(Choice("", Intent.remeasure, MemoryOperator.clean_slate, seed=index) for index in seeds)]


def injected(choice: Choice, state: PlannerState, generator: Callable[[], Random]) -> Choice:
    """``choice``, or with the probability ``inject`` of the session's options one that a seed takes part in.

    An expansion then starts from a seed, or takes it as its second parent, one as often as the other. Only seeds that
    were right when they were measured here count. A ``generator`` is only asked for where there is something to draw:
    seeding one costs as much as the rest of a decision.
    """
    assert state.opened is not None
    share = float(state.opened.policy_options.get("inject", 0.0))
    if choice.intent is not Intent.improve or share <= 0:
        return choice
    rng = generator()
    if rng.random() >= share:
        return choice
    seeds = [node for node in state.own() if node.plan.seed and node.is_correct and node.name != choice.parent]
    if not seeds:
        return choice
    seed = seeds[rng.randrange(len(seeds))]
    return _from(seed) if rng.random() < 0.5 else replace(choice, second=seed.name)


def _from(seed: PlannedNode) -> Choice:
    return Choice(seed.name, Intent.improve, MemoryOperator.inherit, seed.advice)
