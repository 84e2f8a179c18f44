"""Replay with live effects: a session's correct candidates are compiled, verified and timed again on a pool.

"Does this win carry over to that hardware?" The ranking then and now stand side by side; nothing is written down.
"""

import asyncio
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from ..graph.session_graph import NodeRecord, SearchGraph
from ..hardware.device import Device
from ..hardware.platforms import detect
from ..hardware.pools.pool_files import find_pool
from ..schemas import (
    HardwareFacts,
    InputError,
    Interval,
    KernelswarmError,
    Pool,
    PoolError,
    ProblemFacts,
    Schema,
    SessionOpened,
    Verdict,
)


class ReEvaluatedCandidate(Schema, frozen=True, kw_only=True):
    """One candidate, then and now."""

    node: str
    rank: int
    """By recorded speedup, from 1."""
    recorded: Interval
    """Speedup against the best baseline of the recorded run, the confirmed one where there is one."""
    against: str
    """Name of that baseline."""
    verdict: Verdict
    """Of today's run."""
    reason: str = ""
    """What is wrong today; empty if nothing is."""
    now: Interval | None = None
    """Speedup against the best baseline of today's run; None if it is not correct today."""
    against_now: str = ""
    rank_now: int | None = None
    """By today's speedup, from 1; None if it is not correct today."""

    @property
    def kept(self) -> bool:
        """Whether it was a win and still is one."""
        return self.recorded.is_win and self.now is not None and self.now.is_win


class ReEvaluation(Schema, frozen=True, kw_only=True):
    """What became of a session's ranking on a pool."""

    session: str
    recorded_on: str
    """Device that the session was measured on."""
    pool: str
    device: str
    """Device it was measured on now."""
    candidates: tuple[ReEvaluatedCandidate, ...]
    """By recorded rank."""
    rank_correlation: float | None
    """Spearman's, between recorded and present speedups, wrong ones counting as 0; None for fewer than two, or if all
    are equal."""
    wins_recorded: int
    wins_kept: int
    wins_new: int
    """Of those that were none."""
    best: str
    """Fastest node now; empty if none is correct."""


def correct_candidates(graph: SearchGraph) -> list[NodeRecord]:
    """The session's correct candidates, fittest first; each source once.

    Raises:
        KernelswarmError: it has none.
    """
    nodes: dict[str, NodeRecord] = {}
    for node in sorted(graph.own(), key=lambda node: -node.fitness):
        if node.fitness > 0 and node.candidate is not None and _recorded_speedup(node) is not None:
            nodes.setdefault(node.candidate.sha256, node)
    if not nodes:
        raise KernelswarmError(f"session {graph.session} has no correct candidate to re-evaluate")
    return list(nodes.values())


async def re_evaluate_on(
    graph: SearchGraph,
    pool_name: str,
    home: Path,
    *,
    on_notice: Callable[[str], None] = lambda _: None,
    on_judged: Callable[[ReEvaluatedCandidate], None] = lambda _: None,
) -> ReEvaluation:
    """Open the pool of that name (empty: the session's own) on this machine, and :func:`re_evaluate` the session there.

    Raises:
        InputError: the session was never opened, there is no such pool, or it is not served here.
        KernelswarmError, ProblemError: as :func:`re_evaluate`.
    """
    if graph.opened is None:
        raise InputError(f"session {graph.session} has no opening event in the log")
    correct_candidates(graph)  # before the machine is measured
    pool = find_pool(pool_name or graph.opened.pool.name, home)
    hardware = await asyncio.to_thread(detect, pool, home)
    on_notice(f"validating {graph.opened.problem.name} on pool {pool.name}: {hardware.device}")
    async with Device(pool, hardware, home) as device:
        return await re_evaluate(graph, pool, hardware, device, on_judged)


async def re_evaluate(
    graph: SearchGraph,
    pool: Pool,
    hardware: HardwareFacts,
    device: Device,
    on_judged: Callable[[ReEvaluatedCandidate], None] = lambda _: None,
) -> ReEvaluation:
    """Validate the session's problem on ``device``, then evaluate its correct candidates there, the best first.

    Args:
        graph: The session, replayed.
        pool: Where.
        hardware: What it is.
        device: Of that pool; open.
        on_judged: Told of every candidate (without today's rank).

    Raises:
        KernelswarmError: the session was never opened, or has no correct candidate.
        ProblemError: the problem cannot be searched on this pool.
    """
    opened, nodes = graph.opened, correct_candidates(graph)
    if opened is None:
        raise KernelswarmError(f"session {graph.session} has no opening event in the log")
    facts = await device.validate_problem(opened.problem)
    judged = []
    for rank, node in enumerate(nodes, 1):
        judged.append(await _again(node, rank, opened, facts, device))
        on_judged(judged[-1])
    return compared(graph.session, opened.hardware.device, pool.name, hardware.device, judged)


def compared(
    session: str, recorded_on: str, pool: str, device: str, judged: Sequence[ReEvaluatedCandidate]
) -> ReEvaluation:
    """Rank and count. Pure."""
    order = sorted(
        (candidate for candidate in judged if candidate.now is not None), key=lambda candidate: -_speed(candidate)
    )
    ranks = {candidate.node: rank for rank, candidate in enumerate(order, 1)}
    return ReEvaluation(
        session=session,
        recorded_on=recorded_on,
        pool=pool,
        device=device,
        candidates=tuple(
            msgspec.structs.replace(candidate, rank_now=ranks.get(candidate.node)) for candidate in judged
        ),
        rank_correlation=spearman(
            [candidate.recorded.median for candidate in judged], [_speed(candidate) for candidate in judged]
        ),
        wins_recorded=sum(candidate.recorded.is_win for candidate in judged),
        wins_kept=sum(candidate.kept for candidate in judged),
        wins_new=sum(
            candidate.now is not None and candidate.now.is_win and not candidate.recorded.is_win for candidate in judged
        ),
        best=order[0].node if order else "",
    )


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Rank correlation, ties sharing their mean rank; None where it is not defined."""
    if len(left) < 2 or len(set(left)) == 1 or len(set(right)) == 1:
        return None
    return statistics.correlation(_ranks(left), _ranks(right))


def _ranks(values: Iterable[float]) -> list[float]:
    given = list(values)
    return [sum(other < value for other in given) + (given.count(value) + 1) / 2 for value in given]


async def _again(
    node: NodeRecord, rank: int, opened: SessionOpened, facts: ProblemFacts, device: Device
) -> ReEvaluatedCandidate:
    problem, recorded, candidate = opened.problem, _recorded_speedup(node), node.candidate
    assert recorded is not None and candidate is not None
    interval, against = recorded

    def re_evaluated(
        verdict: Verdict, reason: str = "", now: Interval | None = None, best: str = ""
    ) -> ReEvaluatedCandidate:
        return ReEvaluatedCandidate(
            node=node.name,
            rank=rank,
            recorded=interval,
            against=against,
            verdict=verdict,
            reason=reason,
            now=now,
            against_now=best,
        )

    try:
        compiled, _ = await device.compile(candidate.source, candidate.language)
    except PoolError as error:
        return re_evaluated(Verdict.compile_error, str(error))
    verified = await device.verify(problem, candidate.source, compiled)
    if verified.verdict is not Verdict.correct:
        return re_evaluated(verified.verdict, verified.evidence.message if verified.evidence else "")
    profiled = await device.profile(problem, facts, candidate.source, compiled, limits=verified.limits)
    if profiled.timing is None:
        return re_evaluated(profiled.verdict, profiled.evidence.message if profiled.evidence else "")
    best = profiled.timing.baseline(opened.against)
    return re_evaluated(Verdict.correct, "", profiled.timing.speedup[best], best)


def _recorded_speedup(node: NodeRecord) -> tuple[Interval, str] | None:
    diagnosis = node.confirmation_diagnosis or node.diagnosis
    return None if diagnosis is None or diagnosis.speedup is None else (diagnosis.speedup, diagnosis.against)


def _speed(candidate: ReEvaluatedCandidate) -> float:
    return candidate.now.median if candidate.now is not None else 0.0
