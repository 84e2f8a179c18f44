"""The children of a run: a process for each task, several at once, none of which can end another or the run."""

import multiprocessing
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from ...hardware.processes.messages import Ended
from ...hardware.processes.worker import describe_end
from ...schemas import InputError
from . import entry
from .row import Outcome, Row
from .task import Task, rows_of

TASK_SECONDS = 300.0
"""How long the samples of one name may take."""
START_SECONDS = 300.0
"""How long importing torch and its lists may take on a busy machine."""
_WORKER = f"{__package__}.worker"
Run = Callable[[Task, Connection], None]


@dataclass
class _Child:
    task: Task
    process: Any
    connection: Connection
    ends_at: float
    number: int = -1
    """The sample under way."""
    rows: list[Row] = field(default_factory=list)

    def take(self) -> bool:
        """Take what it sent; whether there is more to come."""
        try:
            message = self.connection.recv()
        except (EOFError, ConnectionError):
            return False
        if isinstance(message, Row):
            self.rows.append(message)
        else:
            self.number = message
        return True

    def rows_at_end(self, outcome: Outcome, cause: str) -> list[Row]:
        """Its rows, and one for each language that the sample under way has none in."""
        judged = {row.language for row in self.rows if row.sample == self.number}
        left = [language for language in self.task.languages if language not in judged]
        return [*self.rows, *(rows_of(self.task, self.number, outcome, cause, left) if left else [])]


class Children:
    """A fork server that has torch and its lists, and the processes that it forks."""

    def __init__(self, at_once: int, run: Run = entry.run) -> None:
        """``at_once`` processes at a time, each of which does what ``run`` does."""
        # Kernels of a child may use threads; torch's own would hang in what is forked from a process that ran some.
        os.environ.setdefault("OMP_NUM_THREADS", "2")
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([_WORKER])
        self._at_once, self._run = at_once, run

    def names(self, choices: Sequence[tuple[str, str]]) -> list[list[str]]:
        """The names of every (list, dtype) in ``choices``.

        Raises:
            InputError: PyTorch's lists cannot be imported.
        """
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=entry.names, args=(list(choices), theirs), daemon=True)
        process.start()
        theirs.close()
        try:
            if ours.poll(START_SECONDS):
                return ours.recv()  # type: ignore[no-any-return]
        except EOFError:
            pass
        finally:
            process.kill()
            process.join()
        raise InputError("PyTorch's lists of operators cannot be imported: `python -m pip install torch expecttest`")

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[Task, list[Row]]]:
        """Every task with its rows, as they end; what is under way when this is closed is killed."""
        waiting, running = list(reversed(tasks)), list[_Child]()
        try:
            while waiting or running:
                while waiting and len(running) < self._at_once:
                    running.append(self._started(waiting.pop()))
                for child, rows in self._ended(running):
                    running.remove(child)
                    yield child.task, rows
        finally:
            for child in running:
                child.process.kill()
                child.process.join()

    def _started(self, task: Task) -> _Child:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=self._run, args=(task, theirs), daemon=True)
        process.start()
        theirs.close()
        return _Child(task, process, ours, time.monotonic() + TASK_SECONDS)

    def _ended(self, running: Sequence[_Child]) -> Iterator[tuple[_Child, list[Row]]]:
        ready = wait([child.connection for child in running], timeout=1.0)
        for child in running:
            if child.connection in ready and not child.take():
                child.process.join(10)
                code = child.process.exitcode
                child.process.kill()
                yield child, child.rows if code == 0 else child.rows_at_end(*_end(code))
            elif time.monotonic() > child.ends_at:
                child.process.kill()
                child.process.join()
                yield child, child.rows_at_end(Outcome.late, f"its process took more than {TASK_SECONDS:g} s")


def _end(code: int | None) -> tuple[Outcome, str]:
    ended = Ended(exit_code=max(code or 0, 0), signal=max(-(code or 0), 0))
    return Outcome.crashed, f"its process {describe_end(ended)}"
