"""The public API's benchmarks."""

from collections.abc import Callable
from pathlib import Path

from ..bench.kernelbench import Progress, Report, Row, RunConfiguration, Spectator, Task, Watcher, bench
from ..sessions.home import kernelswarm_home
from .questions import blocking


def bench_kernelbench(
    path: str | Path,
    *,
    level: int = 1,
    problems: str = "",
    pool: str = "cpu",
    budget: int = 20,
    minutes_per_problem: float = 15.0,
    seed: int = 0,
    synthesizer: str = "playbook",
    model: str = "",
    out: str | Path | None = None,
    fresh: bool = False,
    retry: bool = False,
    at_once: int | None = None,
    nats: str = "",
    home: Path | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
    on_row: Callable[[Row, Progress], None] = lambda row, progress: None,
) -> Report:
    """Run KernelBench from a checkout of it; blocks until every chosen problem has its row.

    Interrupted or killed, it goes on where it was when it is called again; what is done is kept.

    Args:
        path: root of the checkout.
        level: of the benchmark.
        problems: which, by number, as ``1-20,33``; by default all of the level.
        pool: hardware pool.
        budget: candidates to spend on each problem.
        minutes_per_problem: stop planning for a problem after so long; it is cut off a quarter later.
        seed: of the planner's random choices.
        synthesizer: ``playbook`` or ``anthropic``.
        model: of a language-model synthesizer.
        out: the CSV file; by default ``kernelbench/levelN-POOL.csv`` in the home.
        fresh: do every problem again.
        retry: do those again that crashed or ran out of time.
        at_once: problems to search at the same time; by default one on each of the pool's devices.
        nats: URL of a cluster; without it a server of this process's own is used.
        home: where log and caches lie; by default ``KERNELSWARM_HOME`` or the user data folder.
        on_notice: told what happens, in a few words; ``print`` will do.
        on_row: given the row of every problem that is done, and how far the run is.

    Raises:
        InputError: the checkout, the choice, the pool, an option or the CSV file cannot be used.
        BusError, StoreError: the bus or the log failed; what is done is kept.
    """
    configuration = RunConfiguration(
        root=Path(path),
        home=home or kernelswarm_home(),
        level=level,
        problems=problems,
        pool=pool,
        budget=budget,
        minutes_per_problem=minutes_per_problem,
        seed=seed,
        synthesizer=synthesizer,
        model=model,
        out=None if out is None else Path(out),
        fresh=fresh,
        retry=retry,
        at_once=at_once,
        nats=nats,
    )
    return blocking(bench(configuration, _Notices(on_notice, on_row)))


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


__all__ = ["bench_kernelbench"]
