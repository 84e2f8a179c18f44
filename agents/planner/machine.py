"""The planner as a pure state machine: ``decide(state, event) -> decisions``.

No clock, no I/O, no global random state. It folds only what it answers (SessionOpened, NodeDiagnosed, StopRequested,
ChoiceMade), so the same log gives the same decisions; time comes in as a StopRequested that a timer published, a
model's word as a ChoiceMade.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ...schemas import (
    DEADLINE,
    OUTSIDE,
    REFERENCE_DIED,
    ChoiceMade,
    Event,
    Intent,
    Interval,
    KernelswarmError,
    NodeDiagnosed,
    NodePlanned,
    SessionOpened,
    StopRequested,
    Verdict,
)
from .aims import aim_of, note_floor, reached, seeming
from .authors import all_out, count_outcome, has_shares, is_on_trial, next_author, writers
from .choices import asks_a_model, candidates, chosen, offer
from .closing import closing
from .dispatch import dispatch_plan
from .finalists import confirmation, first_finalists, further_finalists, is_refuted, may_win
from .joined import rank_alike
from .policies import POLICIES, Choice, draft_count
from .starts import injected, starts
from .state import NOISE, PlannedNode, PlannerState
from .synthesis import count_failure, fails_alike, failure_reason, with_true_counts

WIDTH = 3
"""Nodes under way at once: one compiles, one is verified, one is timed."""

STALL = 16
"""Diagnosed nodes without progress after which the search stops, by default; half of the budget if that is more."""

ANSWERED = (SessionOpened, NodeDiagnosed, StopRequested, ChoiceMade)
"""The events that the planner answers."""


ENOUGH = ("target", "floor")
"""Reasons to finish that do not wait for what is under way: the search has what it was opened for."""


_OVERRIDING = {REFERENCE_DIED: REFERENCE_DIED, DEADLINE: "minutes"}
"""Stops that are the reason to finish whatever it was finishing for, because nothing is confirmed after them."""


@dataclass(frozen=True)
class Decision:
    """One event the planner wants said, and the node it speaks of."""

    event: Event
    node: str = ""


def decide(state: PlannerState, event: Event, node: str = "") -> list[Decision]:
    """Fold ``event`` (about ``node``) into ``state`` and say what follows.

    Raises:
        KernelswarmError: the session names a policy that this version does not have.
    """
    if state.closed or not isinstance(event, ANSWERED):
        # What it does not answer must not move its generator either: a replay may feed it the whole log.
        return []
    state.inputs += 1
    match event:
        case SessionOpened():
            state.opened = event
        case NodeDiagnosed() if event.confirmation:
            _confirmed(state, node, event)
        case NodeDiagnosed():
            _diagnosed(state, node, event)
        case StopRequested():
            state.is_asked_to_stop = True
            state.finishing = _overriding(state, event) or state.finishing or event.reason
            state.obstacle = state.obstacle or event.detail
            state.is_out_of_time = state.is_out_of_time or event.reason == "minutes"
            if event.reason in ("interrupted", DEADLINE):
                return [_close(state)]
        case ChoiceMade():
            return _chosen(state, event)
    return _next(state) if state.opened is not None else []


def _overriding(state: PlannerState, event: StopRequested) -> str:
    """The reason to finish that a stop is whatever it was finishing for; empty if it is none."""
    if event.reason == "interrupted":
        return event.reason if state.opened is not None and state.opened.heeds_interrupts else ""
    return _OVERRIDING.get(event.reason, "")


def _chosen(state: PlannerState, event: ChoiceMade) -> list[Decision]:
    made = chosen(state, event)
    plans = [] if made is None else [_planned(state, _node(state, *made, event.number))]
    return [*plans, *_next(state, len(plans))]


def _diagnosed(state: PlannerState, name: str, event: NodeDiagnosed) -> None:
    node = state.nodes.get(name)
    if node is None or name not in state.in_flight:
        return
    state.in_flight.discard(name)
    rank_alike(state, event)
    node.verdict, node.fitness, node.speedup = event.verdict, event.fitness, event.speedup
    node.against, node.roofline_fraction, node.advice = event.against, event.roofline_fraction, event.advice
    node.shapes, node.absent, node.pending = event.shapes, event.absent, event.pending
    node.synthesis_failed = event.verdict is Verdict.synthesis_failed
    node.failure, node.summary = failure_reason(event) if node.synthesis_failed else "", event.summary
    count_failure(state, event)
    count_outcome(state, node, event)
    state.judged(node)
    if node.is_correct and node.fitness > state.best_seen * NOISE:
        state.best_seen, state.since_progress = node.fitness, 0
    elif not (has_shares(state.opened) and (node.synthesis_failed or _is_beside_outside(state.opened, node))):
        # Of several authors the others go on while one fails: that is no sign that nothing is left to find. Nor is what
        # a faster author does not find one for outside authors, who have their share still before them.
        state.since_progress += 1
    if not state.finishing:
        state.finishing = _reason_to_finish(state, name, event)


def _is_beside_outside(opened: SessionOpened | None, node: PlannedNode) -> bool:
    """Whether outside authors have a share, and this is none of their files."""
    is_shared = opened is not None and opened.awaits_hand_ins and OUTSIDE in [author.name for author in opened.authors]
    return is_shared and node.plan.synthesizer != OUTSIDE


def _confirmed(state: PlannerState, name: str, event: NodeDiagnosed) -> None:
    if name in state.confirming:
        state.confirming.remove(name)
        node = state.nodes[name]
        rank_alike(state, event)
        first = node.expected
        node.confirmations += 1
        node.summary = event.summary
        node.verdict, node.fitness = event.verdict, event.fitness
        node.speedup, node.against = event.speedup, event.against or node.against
        node.shapes, node.absent, node.pending = event.shapes, event.absent, event.pending
        node.joined_ratio = 1.0
        node.ordinary, node.ordinary_against = event.ordinary, event.ordinary_against
        node.ordinary_missing, node.broken_contract = event.ordinary_missing, event.broken_contract
        node.roofline_fraction = event.roofline_fraction
        state.judged(node)
        if state.opened is not None and state.opened.trusts_finalists:
            _tested(state, state.opened, node, first)


def _tested(state: PlannerState, opened: SessionOpened, node: PlannedNode, first: Interval | None) -> None:
    """Heed what a finalist's timing says of the one before, which was ``first``."""
    state.best_seen = max((own.fitness for own in state.own() if own.is_correct), default=0.0)
    node.is_refuted = node.is_refuted or is_refuted(node, first)
    if not state.finishing:
        state.finishing = reached(state, opened, node)


def _reason_to_finish(state: PlannerState, name: str, event: NodeDiagnosed) -> str:
    opened = state.opened
    assert opened is not None
    if all_out(state, opened) or (not has_shares(opened) and (event.exhausted or fails_alike(state, opened))):
        return "exhausted"
    note_floor(state, opened, event.roofline_fraction)
    aim = aim_of(state, opened, [event.speedup], event.roofline_fraction)
    if aim and not opened.trusts_finalists:
        return aim
    state.seeming += [name] * bool(aim)
    if len(state.own()) > draft_count(opened) and state.since_progress >= _patience(opened):
        return "stall"
    return ""


def _patience(opened: SessionOpened) -> int:
    return int(opened.policy_options.get("stall", max(STALL, opened.budget // 2)))


def _next(state: PlannerState, planned: int = 0) -> list[Decision]:
    """Plan more, or confirm, or close; ``planned`` are in answer to the same event already."""
    assert state.opened is not None
    decisions = [Decision(benched) for benched in state.benched[state.benched_said :]]
    state.benched_said = len(state.benched)
    if not state.finishing and not state.confirming and (finalist := seeming(state, state.opened)):
        decisions += _confirming(state, [finalist])
    if not state.finishing:
        while _has_room(state, state.opened):
            decisions.append(_plan(state, planned + len(decisions)))
        is_spent = len(state.own()) - state.unmade >= state.opened.budget
        if is_spent and not state.in_flight and not state.confirming:
            state.finishing = "budget"
    if state.finishing in ENOUGH and not state.is_asked_to_stop and _awaits_authors(state, state.opened):
        state.is_asked_to_stop = True
        decisions.append(Decision(StopRequested(reason=state.finishing)))  # what nobody holds is withdrawn
    waiting = state.in_flight and (not _has_enough(state, state.opened) or _dispatches(state))
    if state.finishing and not waiting and not state.confirming:
        return [*decisions, *_finish(state)]
    return decisions


def _dispatches(state: PlannerState) -> bool:
    """Whether a file that dispatches on shapes is under way: it may be the best."""
    return any(state.nodes[name].plan.intent is Intent.dispatch for name in state.in_flight)


def _has_enough(state: PlannerState, opened: SessionOpened) -> bool:
    """Whether it closes without what is under way: its aim is reached, or time is over and a kernel may win."""
    if state.finishing in ENOUGH:
        return not _awaits_authors(state, opened)
    return state.finishing == "minutes" and opened.hopeless_below > 0 and may_win(state, opened)


def _awaits_authors(state: PlannerState, opened: SessionOpened) -> bool:
    """Whether outside authors have tasks, or files of theirs are judged, before which it does not close."""
    plans = (state.nodes[name].plan for name in state.in_flight) if opened.awaits_hand_ins else ()
    return any(plan.synthesizer == OUTSIDE and plan.intent is not Intent.remeasure for plan in plans)


def _has_room(state: PlannerState, opened: SessionOpened) -> bool:
    """Drafts need no feedback, so all of them are planned at once: they compile while the baselines do."""
    planned = state.own()
    if len(planned) - state.unmade >= opened.budget or state.offer is not None or state.confirming:
        return False
    if len(planned) < len(starts(state)):
        return True
    if opened.origin is not None and all(node.verdict is None for node in planned):
        return False  # what a fork goes on from is to be measured here first
    if is_on_trial(state, opened):
        return False
    if has_shares(opened) and not writers(state, opened) and not all_out(state, opened):
        return False  # what is left of the budget is for outside authors, who are at work
    width = int(opened.policy_options.get("width", WIDTH))
    if len(planned) >= width and _awaits_drafts(state, opened, width):
        return False
    return len(planned) < draft_count(opened) or len(state.in_flight) < width


def _awaits_drafts(state: PlannerState, opened: SessionOpened, width: int) -> bool:
    """Whether a search of few candidates has drafts under way: the first that is judged is seldom the best, and what is
    made of it would be a large part of all that is tried. Outside authors do not wait for each other's, which may take
    hours."""
    if opened.opens_tasks and opened.synthesizer == OUTSIDE:
        return False
    if not opened.awaits_verdicts or has_shares(opened) or opened.budget >= 3 * width:
        return False
    return any(state.nodes[name].plan.intent is Intent.draft for name in state.in_flight)


def _plan(state: PlannerState, index: int) -> Decision:
    opened = state.opened
    assert opened is not None
    if opened.policy not in POLICIES:
        names = ", ".join(sorted(POLICIES))
        raise KernelswarmError(f"policy {opened.policy!r} is not known to this version; known: {names}")
    rng = Random(f"{opened.seed}/{state.inputs}/{index}")
    number = len(state.own()) + 1
    choice = _choice(state, opened, number, rng, index)
    draw = rng.getrandbits(63)
    if asks_a_model(opened) and number > len(starts(state)):
        choices = candidates(
            choice,
            lambda luck: _choice(state, opened, number, luck, index),
            f"{opened.seed}/{state.inputs}/{index}",
        )
        if len(choices) > 1:
            return Decision(offer(state, choices, number, draw), _name(state, number))
    return _planned(state, _node(state, choice, draw, number))


def _node(state: PlannerState, choice: Choice, draw: int, number: int) -> NodePlanned:
    assert state.opened is not None
    return NodePlanned(
        parent=choice.parent,
        intent=choice.intent,
        memory=choice.memory,
        advice=choice.advice,
        draw=draw,
        number=number,
        synthesizer=_author(state, state.opened, choice),
        second=choice.second,
        seed=choice.seed,
    )


def _name(state: PlannerState, number: int) -> str:
    return f"n{state.first_number + number - 1:03d}"


def _planned(state: PlannerState, plan: NodePlanned) -> Decision:
    assert state.opened is not None
    name = _name(state, plan.number)
    state.nodes[name] = PlannedNode(name, plan, counts_device_alone=state.opened.counts_device_alone)
    state.in_flight.add(name)
    if plan.parent in state.nodes:
        state.nodes[plan.parent].children.append(name)
    return Decision(plan, name)


def _author(state: PlannerState, opened: SessionOpened, choice: Choice) -> str:
    """A kernel that is measured again has its author, and takes nobody's share."""
    if choice.intent is Intent.remeasure:
        return opened.authors[0].name if has_shares(opened) else opened.synthesizer
    return next_author(state, opened)


def _choice(state: PlannerState, opened: SessionOpened, number: int, rng: Random, index: int) -> Choice:
    first = starts(state)
    if number <= len(first):
        return first[number - 1]
    choice = POLICIES[opened.policy](opened.policy_options).choose(state, rng)
    # A generator of its own: without seeds the policy's draws must be what they always were.
    return injected(choice, state, lambda: Random(f"{opened.seed}/{state.inputs}/{index}/inject"))


def _finish(state: PlannerState) -> list[Decision]:
    """Confirm the finalists, once more while nothing is decided; after that, close."""
    assert state.opened is not None
    if state.finishing == REFERENCE_DIED:
        return [_close(state)]
    plan = dispatch_plan(state)
    if plan is not None and not any(node.confirmed and not node.is_refuted for node in state.nodes.values()):
        # One more than the budget: it is made of what was found, and nothing is searched for it.
        return [_planned(state, plan)]
    choose = further_finalists if any(node.confirmed for node in state.nodes.values()) else first_finalists
    finalists = choose(state, state.opened)
    if not finalists:
        return [] if _awaits_authors(state, state.opened) else [_close(state)]
    return _confirming(state, finalists)


def _confirming(state: PlannerState, finalists: Sequence[PlannedNode]) -> list[Decision]:
    state.confirming = [node.name for node in finalists]
    return [Decision(confirmation(node, rank), node.name) for rank, node in enumerate(finalists, 1)]


def _close(state: PlannerState) -> Decision:
    state.closed = True
    return Decision(with_true_counts(closing(state), state))
