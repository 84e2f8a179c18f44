"""What a running benchmark shows: a live display on a terminal, a plain line for each problem elsewhere."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...bench.runs import Outcome, Progress, Row, Spectator, Task, Watcher
from ...bench.runs.row import COMPILE_LATE, Key
from .dashboard import Dashboard, best_text, far_text
from .live import PlainLines
from .summary import NAMES
from .terminal import err, is_screen

MINUTE_S, HOUR_S = 60, 3600


@contextmanager
def open_watcher(title: str, *, quiet: bool) -> Iterator[Watcher]:
    """The watcher that fits where stderr goes, for a run of the benchmark called ``title``."""
    if is_screen():
        dashboard = BenchDashboard(title)
        with Live(dashboard, console=err, refresh_per_second=4, transient=True):
            yield dashboard
    elif quiet:
        yield Watcher()
    else:
        yield Lines()


class Lines(PlainLines, Watcher):
    """One plain line for each thing worth knowing."""

    def began(self, task: Task, progress: Progress) -> Spectator:
        """Its lines stand among the others."""
        return self

    def finished(self, row: Row, progress: Progress) -> None:
        """Print the result, and how far the run is."""
        err.print(f"{row_line(row, progress)}  {standing(progress)}", markup=False)


class Scene(Dashboard):
    """The dashboard of one problem's search."""

    def cells(self) -> tuple[str, Text, Text]:
        """It in a line beside others: how far it is, the best so far, who does what."""
        if self.search is None:
            return "", Text(""), Text(self.doing() or "starting", "dim")
        return far_text(self.search.graph), best_text(self.search.graph), Text(self.doing(), "dim")


class BenchDashboard(Watcher):
    """How far the run is, above the dashboard of the search under way, or a line for each. Finished ones stay above."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._title, self._clock = title, clock
        self._progress = Progress(done=0, total=0, fast=0)
        self._before = Scene(clock)
        """What is shown while no problem is under way."""
        self._scenes: dict[Key, Scene] = {}
        """By the problem."""

    def notice(self, text: str) -> None:
        """Show it in the last line."""
        self._before.notice(text)

    def say(self, text: str) -> None:
        """Print it above the dashboard."""
        err.print(text, markup=False)

    def began(self, task: Task, progress: Progress) -> Spectator:
        """Begin a new dashboard."""
        self._progress = progress
        self._scenes[task.key] = Scene(self._clock)
        return self._scenes[task.key]

    def finished(self, row: Row, progress: Progress) -> None:
        """Print the result above the dashboard."""
        self._progress = progress
        self._scenes.pop(row.key, None)
        err.print(f"[{_style(row)}]{escape(row_line(row, progress))}[/]")

    def __rich__(self) -> RenderableType:
        """Draw."""
        progress = self._progress
        head = Table.grid(padding=(0, 2))
        bar = ProgressBar(progress.total or 1, progress.done, width=20)
        status = f"{progress.done}/{progress.total} done, {standing(progress)}"
        scenes = self._scenes or {("", self._title): self._before}
        name = next(iter(scenes))[1] if len(scenes) == 1 else self._title
        head.add_row(Text(name, "bold"), bar, Text(status))
        return Group(head, next(iter(scenes.values())) if len(scenes) == 1 else _side_by_side(scenes))


def _side_by_side(scenes: Mapping[Key, Scene]) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for (_, name), scene in scenes.items():
        table.add_row(Text(name), *scene.cells())
    return table


def row_line(row: Row, progress: Progress) -> str:
    """A finished problem on one line."""
    place = f"[{progress.done:>{len(str(progress.total))}}/{progress.total}]"
    return f"{place} {row.problem}  {_result(row)}  {row.seconds:.0f} s"


def standing(progress: Progress) -> str:
    """``fast_1 0.67, about 12 min left``."""
    left = "" if progress.left_s is None or progress.done == progress.total else f", {left_text(progress.left_s)}"
    return f"fast_1 {progress.fast_1:.2f}{left}"


def left_text(seconds: float) -> str:
    """About how long, in the unit that people would choose."""
    if seconds < MINUTE_S:
        return f"about {seconds:.0f} s left"
    if seconds < HOUR_S:
        return f"about {seconds / MINUTE_S:.0f} min left"
    return f"about {seconds / HOUR_S:.1f} h left"


def _result(row: Row) -> str:
    if row.verdict is not Outcome.correct:
        return row.cause
    eager = f"{row.eager_speedup:.2f}x eager ({row.eager_low:.2f} to {row.eager_high:.2f})"
    if row.compile_baseline == "eager":
        return f"{eager}, nothing compiles it"
    if row.cause == COMPILE_LATE:
        return f"{eager}, {row.cause}"
    name = NAMES[row.compile_baseline]
    return f"{eager}, {row.compile_speedup:.2f}x {name} ({row.compile_low:.2f} to {row.compile_high:.2f})"


def _style(row: Row) -> str:
    if row.verdict is not Outcome.correct:
        return "red"
    return "yellow" if row.is_miss else "green"
