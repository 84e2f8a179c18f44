"""What is to be run, and how."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...agents.registry import ALL_ROLES
from ...agents.synthesizer.authors import check_authors
from ...schemas import InputError
from ...sessions.search_options import SearchOptions
from .benchmark import Benchmark

BUDGET = 20
"""Candidates for each problem, where the user says nothing."""

SURVEY = 10
"""With fewer candidates a session only tries the first drafts: there is nothing to learn for, and one to confirm."""


@dataclass(frozen=True)
class RunConfiguration:
    """A run of a benchmark as the user configures it."""

    benchmark: Benchmark
    root: Path | None
    """The checkout; None where the benchmark needs none."""
    home: Path
    choices: Mapping[str, str] = field(default_factory=dict)
    """The benchmark's own, each with its value (:meth:`.Benchmark.resolved`)."""
    problems: str = ""
    """Which of what was chosen, as ``1-20,33`` or by name; empty: all."""
    pool: str = "cpu"
    search: SearchOptions = field(default_factory=lambda: SearchOptions(budget=BUDGET))
    """Of each problem, but for its minutes."""
    minutes_per_problem: float = 15.0
    out: Path | None = None
    """The CSV file; by default one for each choice and pool in the home."""
    fresh: bool = False
    """Do every problem again."""
    retry: bool = False
    """Do those again that crashed or ran out of time."""
    at_once: int | None = None
    """Problems that are searched at the same time; None: one on each of the pool's devices."""
    nats: str = ""
    roles: dict[str, int] = field(default_factory=lambda: dict(ALL_ROLES))
    """Workers in this process; none leaves the work to a swarm on the cluster."""

    @property
    def csv(self) -> Path:
        """Where the rows are kept."""
        parts = [re.sub(r"[^\w.-]+", "", self.label), self.pool]
        return (self.out or self.home / self.benchmark.name / f"{'-'.join(filter(None, parts))}.csv").absolute()

    @property
    def label(self) -> str:
        """What was chosen, for titles: ``level 1``."""
        return self.benchmark.label(self.choices)

    def options(self, minutes: float) -> SearchOptions:
        """Of one session that may plan for ``minutes``."""
        survey: dict[str, int | float | str] = {"finalists": 1, "looks": 0}
        return replace(
            self.search,
            minutes=minutes,
            ends_planning_only=True,
            policy_options={} if self.search.budget >= SURVEY else survey,
        )

    def check(self) -> None:
        """Refuse what cannot be run, before anything is opened.

        Raises:
            InputError: a value cannot be used; the sentence names it.
        """
        if not 0 < self.minutes_per_problem < math.inf:
            raise InputError(f"minutes per problem {self.minutes_per_problem:g}: give a time above 0")
        if self.at_once is not None and self.at_once < 1:
            raise InputError(f"{self.at_once} problems at once: give a number from 1")
        options = self.options(self.minutes_per_problem)
        options.check()
        check_authors(options.authors, options.roles)
        if not self.roles and not self.nats:
            raise InputError("--no-workers needs --nats URL: without a cluster nobody else could do the work")
        if self.csv.is_dir():
            raise InputError(f"{self.csv} is a folder; name a file for the results with --out")
