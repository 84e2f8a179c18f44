"""The public API's benchmarks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..bench import runs
from ..bench.registry import benchmark_named
from ..bench.runs import Progress, Report, Row, RunConfiguration, Spectator, Task, Watcher
from ..bench.runs.run_configuration import BUDGET
from ..schemas import InputError
from ..sessions.home import kernelswarm_home
from ..sessions.search_options import AuthorChoices, SearchOptions, defaults, given, hints_of
from .choices import taking
from .questions import blocking


@taking(AuthorChoices, defaults(budget=BUDGET))
def run_benchmark(
    name: str,
    path: str | Path | None = None,
    *,
    problems: str = "",
    pool: str = "cpu",
    minutes_per_problem: float = 15.0,
    out: str | Path | None = None,
    fresh: bool = False,
    retry: bool = False,
    at_once: int | None = None,
    nats: str = "",
    home: str | Path | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
    on_row: Callable[[Row, Progress], None] = lambda row, progress: None,
    **choices: Any,
) -> Report:
    """Run a public benchmark from a checkout of it; blocks until every chosen problem has its row.

    Interrupted or killed, it goes on where it was when it is called again; what is done is kept.

    Args:
        name: of the benchmark, as ``kernelswarm bench`` lists them: ``kernelbench``.
        path: root of the checkout, where the benchmark needs one.
        problems: which, by number or name, as ``1-20,33,*relu*``; by default all of what was chosen.
        pool: hardware pool.
        minutes_per_problem: stop planning for a problem after so long; it is cut off a quarter later.
        out: the CSV file; by default one under the benchmark's name in the home. A Markdown table lies beside it.
        fresh: do every problem again.
        retry: do those again that crashed or ran out of time.
        at_once: problems to search at the same time; by default one on each of the pool's devices.
        nats: URL of a cluster; without it a server of this process's own is used.
        home: where log and caches lie; by default ``KERNELSWARM_HOME`` or the user data folder.
        on_notice: told what happens, in a few words; ``print`` will do.
        on_row: given the row of every problem that is done, and how far the run is.
        choices: of the search.
        choices: the benchmark's own: ``level=2`` for KernelBench.

    Raises:
        InputError: the benchmark, the checkout, the choice, the pool, an option or the CSV file cannot be used.
        BusError, StoreError: the bus or the log failed; what is done is kept.
    """
    benchmark = benchmark_named(name)
    if benchmark.checkout and path is None:
        raise InputError(f"benchmark {name} needs the path of a checkout: {benchmark.checkout}")
    search = {option: choices.pop(option) for option in hints_of(AuthorChoices) if option in choices}
    configuration = RunConfiguration(
        benchmark=benchmark,
        root=None if path is None else Path(path),
        home=kernelswarm_home(home),
        choices=benchmark.resolved(choices),
        problems=problems,
        pool=pool,
        search=SearchOptions(**given({"budget": BUDGET, **search})),
        minutes_per_problem=minutes_per_problem,
        out=None if out is None else Path(out),
        fresh=fresh,
        retry=retry,
        at_once=at_once,
        nats=nats,
    )
    return blocking(runs.run_benchmark(configuration, _Notices(on_notice, on_row)))


class _ProblemNotices(Spectator):
    def __init__(self, on_notice: Callable[[str], None]) -> None:
        self._on_notice = on_notice

    def notice(self, text: str) -> None:
        """Pass it on."""
        self._on_notice(text)

    def say(self, text: str) -> None:
        """Pass it on."""
        self._on_notice(text)


class _Notices(Watcher):
    def __init__(self, on_notice: Callable[[str], None], on_row: Callable[[Row, Progress], None]) -> None:
        self._on_notice, self._on_row = on_notice, on_row

    def notice(self, text: str) -> None:
        """Pass it on."""
        self._on_notice(text)

    def say(self, text: str) -> None:
        """Pass it on."""
        self._on_notice(text)

    def began(self, task: Task, progress: Progress) -> Spectator:
        """Tell of it too."""
        return _ProblemNotices(self._on_notice)

    def finished(self, row: Row, progress: Progress) -> None:
        """Pass it on."""
        self._on_row(row, progress)


__all__ = ["run_benchmark"]
