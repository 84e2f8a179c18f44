"""Winners to start from that differ: farthest-point selection over what kernels are made of (docs/seeding.md)."""

from collections.abc import Sequence

from ..schemas import Config, Schema

FLOOR = 0.7
"""Share of the best kernel's speedup that a kernel needs to be worth starting from."""

UNCONFIRMED = 0.9
"""Worth of a speedup that was timed once, for short: the fastest of many such numbers promise more than they hold."""

_SHARES = {"code": 0.6, "branch": 0.2, "bottleneck": 0.2}
"""What each difference adds to a distance; they sum to 1."""


class Winner(Schema, frozen=True, kw_only=True):
    """A kernel that beat its baselines, as selection looks at it."""

    session: str
    node: str
    source: str
    sha256: str
    language: str
    backend: str
    recipe: Config = {}
    branch: str = ""
    """The draft that it descends from, with its session: kernels of one branch are relatives."""
    bottleneck: str = ""
    speedup: float
    """Median against the best baseline, where it was found."""
    low: float
    """Low end of the interval: what it is ranked by."""
    confirmed: bool = True
    """Whether it was timed once more, longer."""
    problem: str = ""
    """Name of its problem."""
    problem_sha256: str = ""
    platform: str = ""
    similarity: float = 1.0
    """Of its problem to the one that is searched, in [0, 1]."""


def diverse(winners: Sequence[Winner], limit: int) -> list[Winner]:
    """At most ``limit`` of ``winners``, the best first, then each time the one that is good and far from all chosen.

    Worth is similarity times the share of the best speedup on the same problem and platform (both by the interval's
    low end); under :data:`FLOOR` of that best a kernel is left out. A confirmed number is the best as long as there is
    one: a luckier one that nobody repeated is worth at most :data:`UNCONFIRMED` of it. The next one is that with the
    greatest product of worth and distance to the nearest chosen one (farthest-point selection, Gonzalez 1985, weighed
    by worth); twins, at distance 0, are never chosen. Ties go by session and node.
    """
    best = _best(winners)
    shares = {(w.session, w.node): _share(w, best[w.problem_sha256, w.platform]) for w in winners}
    worth = {(w.session, w.node): w.similarity * shares[w.session, w.node] for w in winners}
    good = [w for w in winners if shares[w.session, w.node] >= FLOOR]
    left = sorted(good, key=lambda w: (w.session, w.node))
    chosen: list[Winner] = []
    while left and len(chosen) < limit:
        scores = [worth[w.session, w.node] * min([distance(w, c) for c in chosen], default=1.0) for w in left]
        top = max(scores)
        if top <= 0.0:
            break
        chosen.append(left.pop(scores.index(top)))
    return chosen


def _best(winners: Sequence[Winner]) -> dict[tuple[str, str], float]:
    """The best low end by problem and platform: of the confirmed ones, if there are any."""
    best: dict[tuple[str, str], tuple[bool, float]] = {}
    for winner in winners:
        key = winner.problem_sha256, winner.platform
        best[key] = max(best.get(key, (False, 0.0)), (winner.confirmed, winner.low))
    return {key: low for key, (_, low) in best.items()}


def _share(winner: Winner, best: float) -> float:
    return winner.low / best if winner.confirmed else UNCONFIRMED * min(1.0, winner.low / best)


def distance(a: Winner, b: Winner) -> float:
    """How different two kernels are, in [0, 1]; 0 for the same code, whatever its history.

    0.6 times the difference of the code, 0.2 for another branch of a search, 0.2 for another bottleneck. The code of
    two kernels with configs differs by the share of their tunables that are set differently, else by 1 minus the
    Jaccard index of their lines.
    """
    if a.sha256 == b.sha256 or (a.recipe and a.recipe == b.recipe):
        return 0.0
    code = _tunables(a.recipe, b.recipe) if a.recipe and b.recipe else _lines(a.source, b.source)
    parts = {"code": code, "branch": float(a.branch != b.branch), "bottleneck": float(a.bottleneck != b.bottleneck)}
    return sum(share * parts[name] for name, share in _SHARES.items())


def _tunables(a: Config, b: Config) -> float:
    names = {*a, *b}
    return sum(repr(a.get(name)) != repr(b.get(name)) for name in names) / len(names)


def _lines(a: str, b: str) -> float:
    lines_a, lines_b = ({line.strip() for line in text.splitlines()} - {""} for text in (a, b))
    return 1.0 - len(lines_a & lines_b) / len(lines_a | lines_b) if lines_a | lines_b else 0.0
