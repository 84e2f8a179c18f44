"""A run of the benchmark as a whole."""

from collections.abc import Sequence

from ...schemas import Schema
from .row import Row
from .score import FastP, Misses, misses, scores


class Report(Schema, frozen=True, kw_only=True):
    """What ``kernelswarm bench kernelbench --json`` prints, and the Python API returns."""

    level: int
    pool: str
    problems: int
    """Chosen."""
    done: int
    """Of them, brought to an end: fast_p is the share of these."""
    fast_p: tuple[FastP, ...]
    misses: tuple[Misses, ...]
    rows: tuple[Row, ...]
    """Of those that are done, by number."""
    path: str
    """The CSV file."""


def report_on(rows: Sequence[Row], *, level: int, pool: str, problems: int, path: str) -> Report:
    """The report on ``rows``, which are those that are done."""
    return Report(
        level=level,
        pool=pool,
        problems=problems,
        done=len(rows),
        fast_p=scores(rows),
        misses=misses(rows),
        rows=tuple(rows),
        path=path,
    )
