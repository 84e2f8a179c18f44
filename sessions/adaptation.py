"""A kernel that won elsewhere, brought into the form of the problem at hand, or left out with a reason. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ..codegen.transfer import rewritten
from ..knowledge import Winner
from ..schemas import HardwareFacts, Pool, Problem, ProblemFacts, sha256


@dataclass(frozen=True)
class Target:
    """What is to be searched, and where."""

    problem: Problem
    facts: ProblemFacts
    pool: Pool
    hardware: HardwareFacts


@dataclass(frozen=True)
class AdaptedKernel:
    """A kernel that can be measured here as it is."""

    winner: Winner
    """With the source and the settings that are measured here."""
    adapted: bool
    """Whether the source was written anew."""


def adapt(winners: Sequence[Winner], target: Target) -> tuple[list[AdaptedKernel], list[str]]:
    """Those that can be measured here, each source once, and a sentence for each reason why others do not."""
    kept: dict[str, AdaptedKernel] = {}
    refused: dict[str, int] = {}
    for winner in winners:
        result = _adapted(winner, target)
        if isinstance(result, str):
            reason = f"of {winner.problem} ({winner.session}): {result}"
            refused[reason] = refused.get(reason, 0) + 1
        elif (
            result.winner.sha256 not in kept or result.winner.similarity > kept[result.winner.sha256].winner.similarity
        ):
            kept[result.winner.sha256] = result
    return list(kept.values()), [f"left out {count} {reason}" for reason, count in refused.items()]


def _adapted(winner: Winner, target: Target) -> AdaptedKernel | str:
    if winner.language not in target.pool.languages:
        return f"written in {winner.language}, pool {target.pool.name} takes {', '.join(target.pool.languages)}"
    if winner.problem_sha256 == target.problem.sha256:
        return AdaptedKernel(winner, adapted=False)
    if not winner.recipe:
        return "another problem's kernel without settings that could be carried over"
    written = rewritten(target.facts, target.hardware, winner.recipe, winner.language)
    if written is None:
        return f"its settings have nothing to act on: no {winner.language} kernel is written for {target.problem.name}"
    source, config = written
    return AdaptedKernel(
        msgspec.structs.replace(winner, source=source, sha256=sha256(source), recipe=config),
        adapted=True,
    )
