"""Two sessions side by side: what was asked, where their decisions diverge, what each found and how soon. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..graph.inheritance import comparable
from ..graph.nodes import NodeRecord
from ..graph.session_graph import SearchGraph
from ..schemas import (
    ConfirmationPlanned,
    Event,
    Interval,
    KernelswarmError,
    NodeDiagnosed,
    NodePlanned,
    Schema,
    SessionClosed,
    SessionOpened,
    user_names,
)
from .first_divergence import first_difference
from .recorded_session import RecordedSession

CLOSE = 0.95
"""Share of the best speedup at which a search counts as there."""

_DEED = ("tag", "parent", "intent", "memory", "rank", "reason")
_DECISIONS = (NodePlanned, ConfirmationPlanned, SessionClosed)


class Decided(Schema, frozen=True, kw_only=True):
    """One decision of a planner."""

    node: str
    """Empty for the close."""
    event: dict[str, Any]
    """As it was said."""


class FirstDivergence(Schema, frozen=True, kw_only=True):
    """The first decision in which two sessions do something else."""

    number: int
    """Position among the decisions, from 1: all before it do the same."""
    field: str
    """Where in it; empty where one side has no such decision."""
    a: Decided | None
    """None if that session had decided everything, or was cut off, by then."""
    b: Decided | None


class Side(Schema, frozen=True, kw_only=True):
    """One of the sessions."""

    session: str
    device: str
    status: str
    """``open`` or ``closed``."""
    reason: str
    """Why it ended; empty while it is open."""
    candidates: int
    """As ``show`` and SQL count them: judged ones, of an open session those that were made."""
    correct: int
    wins: int
    best: str
    """Best node; empty if there is none."""
    source: str
    """sha256 of its file."""
    speedup: Interval | None
    """Of the best by the judge."""
    against: str
    seconds: float
    """From the first event to the close, or to the last event."""
    candidates_to_best: int | None
    """Diagnosed candidates until one reached 95 % of the session's own best."""
    candidates_to_better: int | None
    """Until one reached 95 % of the better best of the two; None if none did, or if they cannot be compared."""


class SessionDiff(Schema, frozen=True, kw_only=True):
    """Two sessions compared."""

    a: Side
    b: Side
    asked: dict[str, tuple[Any, Any]]
    """What differs in what was asked, by name, as (a, b)."""
    divergence: FirstDivergence | None
    """None if all decisions do the same."""
    comparable: bool
    """Whether their speedups may be compared: the same problem on the same hardware against the same baselines, and on
    an accelerator by the same measure."""
    better: str
    """The session whose best interval lies above the other's; empty if they overlap or cannot be compared."""


def compare(a: RecordedSession, b: RecordedSession) -> SessionDiff:
    """Hold two recorded sessions against each other.

    Raises:
        KernelswarmError: one of them has no opening event.
    """
    graphs = a.graph(), b.graph()
    opened = _opened(graphs[0]), _opened(graphs[1])
    fit = opened[0].problem.sha256 == opened[1].problem.sha256 and comparable(*opened) and _one_measure(*opened)
    fit = fit and _absent(graphs[0]) == _absent(graphs[1])
    speedups = _speedup(graphs[0]), _speedup(graphs[1])
    goal = max((speedup.median for speedup in speedups if speedup is not None), default=0.0) if fit else 0.0
    sides = [_side(*pair, goal) for pair in zip((a, b), graphs, strict=True)]
    return SessionDiff(
        a=sides[0],
        b=sides[1],
        asked=_asked(*opened),
        divergence=first_divergence(_decisions(a), _decisions(b)),
        comparable=fit,
        better=_better(sides[0], sides[1]) if fit else "",
    )


def first_divergence(a: Sequence[Decided], b: Sequence[Decided]) -> FirstDivergence | None:
    """The first decision in which they differ; None if they are equal.

    What a decision does counts: the random number that goes with it and the measured figures in it differ always.
    """
    for number in range(max(len(a), len(b))):
        left, right = (side[number] if number < len(side) else None for side in (a, b))
        if left is None or right is None:
            return FirstDivergence(number=number + 1, field="", a=left, b=right)
        difference = first_difference(_deed(left), _deed(right))
        if difference is not None:
            return FirstDivergence(number=number + 1, field=difference[0], a=left, b=right)
    return None


def _deed(decided: Decided) -> dict[str, Any]:
    event = decided.event
    deed: dict[str, Any] = {"node": decided.node, "advice": [advice["action"] for advice in event.get("advice", ())]}
    return deed | {name: event[name] for name in _DEED if name in event}


def _opened(graph: SearchGraph) -> SessionOpened:
    if graph.opened is None:
        raise KernelswarmError(f"session {graph.session} has no opening event in the log: it cannot be compared")
    return graph.opened


def _asked(a: SessionOpened, b: SessionOpened) -> dict[str, tuple[Any, Any]]:
    pairs = zip(_question(a).items(), _question(b).values(), strict=True)
    return {name: (left, right) for (name, left), right in pairs if left != right}


def _question(opened: SessionOpened) -> Mapping[str, Any]:
    origin = opened.origin
    return {
        "problem": opened.problem.name,
        "problem file": opened.problem.sha256[:12],
        "pool": opened.pool.name,
        "device": opened.hardware.device,
        "baselines": list(opened.pool.baselines),
        "policy": opened.policy,
        "policy options": dict(opened.policy_options),
        "budget": opened.budget,
        "minutes": opened.minutes,
        "target": opened.target,
        "seed": opened.seed,
        "author": user_names(opened.synthesizer),
        "model": opened.model,
        "language": opened.language,
        "forked from": f"{origin.session} at {origin.node or origin.at}" if origin else "",
        "seeded from": list(opened.seeds),
        "skills": [skill.id for skill in opened.skills],
        "candidates handed in": len(opened.candidates),
        "version": opened.version,
    }


def _decisions(recorded: RecordedSession) -> list[Decided]:
    events: list[tuple[str, Event | None]] = [(envelope.node, envelope.event()) for _, envelope in recorded.events]
    return [
        Decided(node=node, event=msgspec.to_builtins(event)) for node, event in events if isinstance(event, _DECISIONS)
    ]


def _side(recorded: RecordedSession, graph: SearchGraph, goal: float) -> Side:
    closed, own, speedup, best = graph.closed, graph.own(), _speedup(graph), _best(graph)
    diagnoses = [node.confirmation_diagnosis or node.diagnosis for node in own]
    times = [envelope.at_ns for _, envelope in recorded.events]
    return Side(
        session=recorded.id,
        device=_opened(graph).hardware.device,
        status="closed" if closed else "open",
        reason=closed.reason if closed else "",
        candidates=closed.candidates if closed else sum(node.candidate is not None for node in own),
        correct=sum(diagnosis is not None and diagnosis.fitness > 0 for diagnosis in diagnoses),
        wins=closed.wins
        if closed
        else sum(
            diagnosis is not None and diagnosis.speedup is not None and diagnosis.speedup.is_win
            for diagnosis in diagnoses
        ),
        best=best.name if best else "",
        source=best.candidate.sha256 if best and best.candidate else "",
        speedup=speedup,
        against=_against(graph),
        seconds=(max(times) - min(times)) / 1e9,
        candidates_to_best=candidates_to(recorded, speedup.median) if speedup else None,
        candidates_to_better=candidates_to(recorded, goal) if goal else None,
    )


def candidates_to(recorded: RecordedSession, best: float) -> int | None:
    """Diagnosed candidates until one reached 95 % of the speedup ``best``; None if none did."""
    count = 0
    for _, envelope in recorded.events:
        event = envelope.event()
        if isinstance(event, NodeDiagnosed) and not event.confirmation:
            count += 1
            if event.fitness >= CLOSE * best:
                return count
    return None


def _speedup(graph: SearchGraph) -> Interval | None:
    if graph.closed is not None:
        return graph.closed.by_judge
    diagnosis = _diagnosis_of_best(graph)
    return diagnosis.speedup if diagnosis else None


def _best(graph: SearchGraph) -> NodeRecord | None:
    return graph.nodes.get(graph.closed.best) if graph.closed else graph.best()


def _diagnosis_of_best(graph: SearchGraph) -> NodeDiagnosed | None:
    best = _best(graph)
    return (best.confirmation_diagnosis or best.diagnosis) if best else None


def _absent(graph: SearchGraph) -> set[str]:
    """Baselines that the best candidate was not compared with, because they were still being compiled."""
    diagnosis = _diagnosis_of_best(graph)
    return {*diagnosis.absent} if diagnosis else set()


def _one_measure(a: SessionOpened, b: SessionOpened) -> bool:
    return a.is_on_processor or a.measure == b.measure


def _against(graph: SearchGraph) -> str:
    if graph.closed is not None:
        return graph.closed.by_judge_against
    best = graph.best()
    return best.diagnosis.against if best and best.diagnosis else ""


def _better(a: Side, b: Side) -> str:
    if a.speedup is None or b.speedup is None:
        return a.session if a.speedup else (b.session if b.speedup else "")
    if a.speedup.low > b.speedup.high:
        return a.session
    return b.session if b.speedup.low > a.speedup.high else ""
