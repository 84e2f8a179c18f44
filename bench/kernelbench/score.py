"""What the rows come to: fast_p, and the misses by cause. Pure."""

from collections import defaultdict
from collections.abc import Sequence

from ...schemas import Schema
from .row import Row

THRESHOLDS = (1.0, 1.5, 2.0)
JUDGED = ("eager", "compile")
ORDINARY = ("ordinary_eager", "ordinary_compile")
CALL = ("call_eager", "call_compile")


class FastP(Schema, frozen=True, kw_only=True):
    """Share of the problems whose kernel is right and more than ``p`` times as fast.

    Ouyang et al., KernelBench: Can LLMs Write Efficient GPU Kernels? (2025), section 3.3. A miss counts as one that is
    not.
    """

    against: str
    """``eager``, or ``compile`` for the faster of torch.compile and max-autotune, by the judge; ``ordinary_eager`` and
    ``ordinary_compile`` in ordinary processes, ``call_eager`` and ``call_compile`` there on an accelerator."""
    p: float
    problems: int
    """Of how many it is the share."""
    count: int
    """Median speedup above ``p``."""
    surely: int
    """The whole 95 % interval above ``p``."""
    share: float
    """``count`` of ``problems``: fast_p as published; 0 of none."""
    sure_share: float
    """``surely`` of ``problems``."""


class Misses(Schema, frozen=True, kw_only=True):
    """Problems that were missed for one reason."""

    cause: str
    problems: tuple[str, ...]
    """Their names, by number."""


def fast_p(rows: Sequence[Row], against: str, p: float) -> FastP:
    """``fast_p`` of ``rows`` against one of :data:`JUDGED`, :data:`ORDINARY` or :data:`CALL`."""
    count = _above(rows, f"{against}_speedup", p)
    surely = _above(rows, f"{against}_low", p)
    problems = max(1, len(rows))
    return FastP(
        against=against,
        p=p,
        problems=len(rows),
        count=count,
        surely=surely,
        share=count / problems,
        sure_share=surely / problems,
    )


def _above(rows: Sequence[Row], column: str, p: float) -> int:
    values = (getattr(row, column) for row in rows)
    return sum(value is not None and value > p for value in values)


def scores(rows: Sequence[Row]) -> tuple[FastP, ...]:
    """Against both, at every threshold; first in ordinary processes, if they were timed for any problem."""
    ordinary = ORDINARY if any(row.ordinary_eager_speedup is not None for row in rows) else ()
    call = CALL if any(row.call_eager_speedup is not None for row in rows) else ()
    return tuple(fast_p(rows, against, p) for against in (*ordinary, *JUDGED, *call) for p in THRESHOLDS)


def misses(rows: Sequence[Row]) -> tuple[Misses, ...]:
    """Those without an interval above 1 over eager, by cause, the commonest first."""
    by_cause: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.is_miss:
            by_cause[row.cause].append(row.problem)
    ordered = sorted(by_cause.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(Misses(cause=cause, problems=tuple(names)) for cause, names in ordered)
