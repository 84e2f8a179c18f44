"""A planner that asks a model: what it offers, and what it makes of the model's choice."""

import pytest
from planner_ring import Ring

import given
from kernelswarm.agents.planner.machine import Decision
from kernelswarm.schemas import (
    Advice,
    AdviceAction,
    ChoiceMade,
    ChoicesOffered,
    NodePlanned,
    RoleModel,
    StopRequested,
)


def test_a_planner_with_a_model_offers_the_policy_s_candidates_and_plans_the_chosen_one() -> None:
    ring, offer = offering()
    event, node = offer.event, offer.node
    assert isinstance(event, ChoicesOffered) and len(event.choices) > 1
    assert len({(c.parent, c.memory, c.advice[:1]) for c in event.choices}) == len(event.choices)
    assert not any(isinstance(d.event, NodePlanned) and d.node == node for d in ring.decisions)
    planned = ring.tell(ChoiceMade(number=event.number, choice=1, reason="why not"), node)
    assert planned[0].node == node and isinstance(planned[0].event, NodePlanned)
    picked = event.choices[1]
    assert (planned[0].event.parent, planned[0].event.advice) == (picked.parent, picked.advice)


def test_the_policy_s_own_choice_is_what_a_planner_without_a_model_plans() -> None:
    _, offer = offering()
    plain = Ring(budget=5, policy_options={"width": 1})
    for _ in range(20):
        node, event = plain.plans()[-1]
        if node == offer.node:
            break
        plain.tell(given.diagnosed(1.5 - event.number / 100, advice=ADVICE), node)
    assert isinstance(offer.event, ChoicesOffered)
    first = offer.event.choices[0]
    assert (event.parent, event.intent, event.memory, event.advice) == (
        *(first.parent, first.intent, first.memory, first.advice),
    )


@pytest.mark.parametrize("reason", ["minutes", "user"])
def test_a_choice_that_comes_after_the_end_plans_nothing(reason: str) -> None:
    ring, offer = offering()
    assert isinstance(offer.event, ChoicesOffered)
    ring.tell(StopRequested(reason=reason))
    late = ring.tell(ChoiceMade(number=offer.event.number, choice=0), offer.node)
    assert not any(isinstance(decision.event, NodePlanned) for decision in late)


@pytest.mark.parametrize(("number", "choice"), [(99, 0), (0, 7), (0, -1)])
def test_a_choice_of_nothing_that_was_offered_plans_the_policy_s_next(number: int, choice: int) -> None:
    ring, offer = offering()
    assert isinstance(offer.event, ChoicesOffered)
    ring.tell(ChoiceMade(number=number or offer.event.number, choice=choice), offer.node)
    assert ring.state.offer is not None, "the search goes on"


ADVICE = tuple(Advice(action=action, reason="test") for action in (AdviceAction.vectorize, AdviceAction.less_overhead))


def offering() -> tuple[Ring, Decision]:
    """A ring whose planner has just offered a choice."""
    role = RoleModel(role="planner", backend="anthropic", model="m")
    ring = Ring(budget=5, policy_options={"width": 1}, roles=(role,))
    for _ in range(20):
        last = ring.decisions[-1]
        if isinstance(last.event, ChoicesOffered):
            return ring, last
        assert isinstance(last.event, NodePlanned)
        ring.tell(given.diagnosed(1.5 - last.event.number / 100, advice=ADVICE), last.node)
    raise AssertionError("nothing was offered")
