"""What a running benchmark tells: how far it is, and every event of the sessions under way."""

from dataclasses import dataclass

from ...sessions.spectator import Spectator
from .benchmark import Task
from .row import Row


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int
    """Problems that are done, those of earlier runs among them."""
    total: int
    fast: int
    """Of the done ones: median above 1 over the best baseline."""
    left_s: float | None = None
    """Seconds that the rest will take at this run's pace; None until it has one."""

    @property
    def fast_1(self) -> float:
        """fast_1 over the best baseline so far; 0 of nothing."""
        return self.fast / self.done if self.done else 0.0


def progress_of(rows: list[Row], total: int, seconds: list[float], at_once: int = 1) -> Progress:
    """``rows`` are done; ``seconds`` is how long each problem of this run took, ``at_once`` of them side by side."""
    pace = sum(seconds) / len(seconds) / at_once if seconds else None
    return Progress(
        done=len(rows),
        total=total,
        fast=sum((ratio := row.speedup("best")) is not None and ratio.median > 1.0 for row in rows),
        left_s=None if pace is None else pace * (total - len(rows)),
    )


class Watcher:
    """Hears what happens to the run. Override what is of interest."""

    def notice(self, text: str) -> None:
        """Something is going on that takes a moment."""

    def say(self, text: str) -> None:
        """Something that a person should know afterwards too."""

    def began(self, task: Task, progress: Progress) -> Spectator:
        """A problem is taken up, maybe beside others; whom to tell what happens to it."""
        return Spectator()

    def finished(self, row: Row, progress: Progress) -> None:
        """A problem is done; its row is written."""
