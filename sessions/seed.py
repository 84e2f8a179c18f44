"""Kernels of earlier sessions for a new search: found alike, chosen diverse, brought into this problem's form.

What decides is documented in docs/seeding.md. What comes out goes into the opening event, so a replay needs no log.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import structs

from .. import store
from ..bus import Bus
from ..knowledge import Likeness, Winner, diverse, likeness, structure_of
from ..schemas import InputError, SeedKernel, StoreError
from ..store import SearchedProblem, WinnerRow
from .adaptation import AdaptedKernel, Target, adapt

AUTO = "auto"
"""In place of a session: whatever is alike in the log."""

MOST_SEEDS = 4
"""Kernels that a search is seeded with at most, and at most a third of its budget."""

ALIKE = 0.6
"""Likeness from which on a problem counts as alike."""

ALIKE_STRUCTURE = 0.3
"""Likeness of the structure that it needs besides: platform, dtype and sizes alone make no kernel fit."""

MOST_SESSIONS = 12
"""Sessions whose winners are looked at, the most alike and latest first; more if more are named."""

MANY = 10_000
"""Sessions that a misspelt one is compared with."""


@dataclass(frozen=True)
class Seeding:
    """The kernels chosen, and what a person should know of the choice."""

    kernels: tuple[SeedKernel, ...] = ()
    notes: tuple[str, ...] = ()
    """A line for each kernel, and for what was left out and why."""


async def seeding(
    home: Path, target: Target, sources: Sequence[str], budget: int, *, bus: Bus | None = None
) -> Seeding:
    """Choose the seeds of a search.

    Args:
        home: where the log lies.
        target: what is to be searched.
        sources: sessions, or ``auto`` for the most alike problems of the log; none for no seeds.
        budget: candidates of the search.
        bus: of a cluster, or of a process that has the log.

    Raises:
        InputError: a session is not there (the nearest is named), or none of those named has a kernel that fits.
        LogCorrupted: a session that the chosen come from is not what was written; its first bad event is named.
        StoreError, BusError: the log cannot be read.
    """
    if not sources:
        return Seeding()
    matches: list[tuple[SearchedProblem, Likeness]] = []
    named = [source for source in sources if source != AUTO]
    if named:
        matches += _compared(await store.searched_problems(home, named, bus=bus), target)
        await _check_named(home, named, matches, bus)
    if AUTO in sources:
        alike = _compared(await _all(home, bus), target)
        matches += [pair for pair in alike if pair[1].whole >= ALIKE and pair[1].structure >= ALIKE_STRUCTURE]
    most = max(MOST_SESSIONS, len(named))
    chosen = _chosen(await _winners(home, matches, most, bus), target, max(1, min(MOST_SEEDS, budget // 3)))
    for session in dict.fromkeys(kernel.session for kernel in chosen.kernels):
        await store.read_recorded(home, session, bus=bus, verify=True)
    if named and not chosen.kernels:
        why = chosen.notes[0] if chosen.notes else "no candidate of theirs beat its baselines"
        raise InputError(f"nothing of {', '.join(named)} can seed {target.problem.name}: {why}; leave --seed-from out")
    if not chosen.kernels:
        return Seeding((), ("no seeds: nothing in the log is alike and won", *chosen.notes))
    return chosen


def _chosen(winners: Sequence[Winner], target: Target, limit: int) -> Seeding:
    kernels, refused = adapt(winners, target)
    by_node = {(kernel.winner.session, kernel.winner.node): kernel for kernel in kernels}
    chosen = [by_node[winner.session, winner.node] for winner in diverse([kernel.winner for kernel in kernels], limit)]
    return Seeding(tuple(map(_kernel, chosen)), (*map(_note, chosen), *refused))


def _kernel(kernel: AdaptedKernel) -> SeedKernel:
    seed = msgspec.convert(kernel.winner, SeedKernel, from_attributes=True)
    return structs.replace(seed, adapted=kernel.adapted)


def _note(kernel: AdaptedKernel) -> str:
    winner = kernel.winner
    how = "its settings" if kernel.adapted else "as it is"
    return (
        f"seed {winner.node} of {winner.session} ({winner.problem}, likeness {winner.similarity:.2f}): "
        f"{winner.speedup:.2f}x there, {how}"
    )


async def _all(home: Path, bus: Bus | None) -> list[SearchedProblem]:
    try:
        return await store.searched_problems(home, bus=bus)
    except StoreError:
        if bus is None and not store.log_path(home).exists():
            return []
        raise


def _compared(problems: Sequence[SearchedProblem], target: Target) -> list[tuple[SearchedProblem, Likeness]]:
    """The problems with their likeness, the most alike first."""
    here = structure_of(target.facts, target.pool.platform)
    pairs = [(problem, likeness(structure_of(problem.facts, problem.platform), here)) for problem in problems]
    return sorted(pairs, key=lambda pair: (-round(pair[1].whole, 6), pair[0].sha256, pair[0].platform))


async def _check_named(
    home: Path, named: Sequence[str], matches: Sequence[tuple[SearchedProblem, Likeness]], bus: Bus | None
) -> None:
    there = {session for problem, _ in matches for session in problem.sessions}
    for session in named:
        if session not in there:
            sessions = [row.session for row in await store.sessions(home, bus=bus, limit=MANY)]
            near = difflib.get_close_matches(session, sessions, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else "; `kernelswarm sessions` lists them"
            raise InputError(f"there is no session {session!r} to seed from{hint}")


async def _winners(
    home: Path, matches: Sequence[tuple[SearchedProblem, Likeness]], most: int, bus: Bus | None
) -> list[Winner]:
    sessions = {session: (problem, like) for problem, like in reversed(matches) for session in problem.sessions}
    order = dict.fromkeys(session for problem, _ in matches for session in problem.sessions)
    winners: list[Winner] = []
    for session in list(order)[:most]:
        rows = await store.winners(home, session, bus=bus)
        winners += [_winner(row, *sessions[session]) for row in rows]
    return winners


def _winner(row: WinnerRow, problem: SearchedProblem, like: Likeness) -> Winner:
    measured = structs.asdict(row) | {
        "branch": f"{row.session}/{row.branch}",
        "bottleneck": row.bottleneck or "",
    }
    return Winner(
        **measured,
        problem=problem.problem,
        problem_sha256=problem.sha256,
        platform=problem.platform,
        similarity=min(1.0, like.whole),
    )
