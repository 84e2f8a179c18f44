"""A run of a benchmark as a whole."""

from collections.abc import Sequence

from ...schemas import Schema
from .row import Row
from .run_configuration import RunConfiguration
from .score import FastP, Mean, Misses, mean_score, means, misses, scores


class Report(Schema, frozen=True, kw_only=True):
    """What ``kernelswarm bench NAME --json`` prints, and the Python API returns."""

    benchmark: str
    """Its title: ``KernelBench``."""
    label: str
    """What of it was chosen: ``level 1``."""
    pool: str
    problems: int
    """Chosen."""
    done: int
    """Of them, brought to an end: every share and mean is of these."""
    fast_p: tuple[FastP, ...]
    geometric_mean: tuple[Mean, ...]
    misses: tuple[Misses, ...]
    rows: tuple[Row, ...]
    """Of those that are done, by number."""
    path: str
    """The CSV file; the same as a Markdown table lies beside it."""
    score_name: str = ""
    """The benchmark's own figure of merit; empty where it has none."""
    score: float | None = None
    """Its mean over the problems that are done; one without a right kernel counts 0."""


def report_on(configuration: RunConfiguration, rows: Sequence[Row], *, problems: int) -> Report:
    """The report on ``rows``, which are those that are done, of ``problems`` that were chosen."""
    return Report(
        benchmark=configuration.benchmark.title,
        label=configuration.label,
        pool=configuration.pool,
        problems=problems,
        done=len(rows),
        fast_p=scores(rows),
        geometric_mean=means(rows),
        misses=misses(rows),
        rows=tuple(rows),
        path=str(configuration.csv),
        score_name=configuration.benchmark.score_name,
        score=mean_score(rows),
    )
