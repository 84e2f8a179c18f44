"""Outside authors beside others: nobody waits for them, and nobody uses their share up."""

from collections import Counter

import given
from kernelswarm.agents.planner.machine import Decision, decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.schemas import OUTSIDE, AuthorShare, NodePlanned

AUTHORS = (AuthorShare(name="playbook"), AuthorShare(name=OUTSIDE))


def plans(decisions: list[Decision]) -> list[tuple[str, str]]:
    """Nodes that were planned, and who is to write them."""
    return [(d.node, d.event.synthesizer) for d in decisions if isinstance(d.event, NodePlanned)]


def test_the_generator_goes_on_while_tasks_wait_and_leaves_them_their_share() -> None:
    state, written = PlannerState(), Counter()
    options = {"drafts": 6, "width": 6, "stall": 100}
    opened = given.opened(authors=AUTHORS, synthesizer="playbook:1,outside:1", budget=20, policy_options=options)
    tasks: list[str] = []
    waiting = plans(decide(state, opened))
    while waiting:
        node, author = waiting.pop(0)
        written[author] += 1
        if author == OUTSIDE:
            tasks.append(node)  # nobody hands anything in
        else:
            waiting += plans(decide(state, given.diagnosed(1.1), node))
    assert written == {"playbook": 10, OUTSIDE: 3} and not state.closed

    while tasks:
        for node, author in plans(decide(state, given.diagnosed(1.1), tasks.pop(0))):
            assert author == OUTSIDE, "the rest of the budget is theirs"
            written[author] += 1
            tasks.append(node)
    assert written == {"playbook": 10, OUTSIDE: 10}
    assert state.finishing == "budget"
