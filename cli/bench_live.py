"""What a running benchmark shows: a live picture on a terminal, a plain line for each problem elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..agents.search import Search
from ..kernelbench import Outcome, Progress, Row, Task, Watcher
from ..schemas import Envelope, Event
from .picture import Picture
from .summary import NAMES
from .terminal import err, is_screen

MINUTE_S, HOUR_S = 60, 3600


@contextmanager
def open_watcher(*, quiet: bool) -> Iterator[Watcher]:
    """The watcher that fits where stderr goes."""
    if is_screen():
        picture = Board()
        with Live(picture, console=err, refresh_per_second=4, transient=True):
            yield picture
    elif quiet:
        yield Watcher()
    else:
        yield Lines()


class Lines(Watcher):
    """One plain line for each thing worth knowing."""

    def notice(self, text: str) -> None:
        """Print it."""
        err.print(text, markup=False)

    def say(self, text: str) -> None:
        """Print it."""
        err.print(text, markup=False)

    def waiting(self, text: str) -> None:
        """Print it."""
        err.print(text or "every role of the pool is served again", markup=False)

    def opened(self, search: Search) -> None:
        """Print the session's id."""
        err.print(f"session {search.session}", markup=False)

    def finished(self, row: Row, progress: Progress) -> None:
        """Print the result, and how far the run is."""
        err.print(f"{row_line(row, progress)}  {standing(progress)}", markup=False)


class Board(Watcher):
    """How far the run is, above the picture of the search under way. Finished problems stay above both."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._task = ""
        self._progress = Progress(done=0, total=0, fast=0)
        self._picture = Picture(clock)

    def notice(self, text: str) -> None:
        """Show it in the last line."""
        self._picture.notice(text)

    def say(self, text: str) -> None:
        """Print it above the picture."""
        err.print(text, markup=False)

    def waiting(self, text: str) -> None:
        """Show it in the last line until it is taken back."""
        self._picture.waiting(text)

    def began(self, task: Task, progress: Progress) -> None:
        """Begin a new picture."""
        self._task, self._progress, self._picture = task.name, progress, Picture(self._clock)

    def opened(self, search: Search) -> None:
        """Show the search."""
        self._picture.opened(search)

    def show(self, envelope: Envelope, event: Event) -> None:
        """Show the event."""
        self._picture.show(envelope, event)

    def finished(self, row: Row, progress: Progress) -> None:
        """Print the result above the picture."""
        self._progress = progress
        err.print(f"[{_style(row)}]{escape(row_line(row, progress))}[/]")

    def __rich__(self) -> RenderableType:
        """Draw."""
        progress = self._progress
        head = Table.grid(padding=(0, 2))
        bar = ProgressBar(progress.total or 1, progress.done, width=20)
        told = f"{progress.done}/{progress.total} done, {standing(progress)}"
        head.add_row(Text(self._task or "KernelBench", "bold"), bar, Text(told))
        return Group(head, self._picture)


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
    name = NAMES[row.compile_baseline]
    return f"{eager}, {row.compile_speedup:.2f}x {name} ({row.compile_low:.2f} to {row.compile_high:.2f})"


def _style(row: Row) -> str:
    if row.verdict is not Outcome.correct:
        return "red"
    return "yellow" if row.is_miss else "green"
