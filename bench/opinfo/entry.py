"""What children begin with. The parent names these functions without importing torch."""

from collections.abc import Sequence
from multiprocessing.connection import Connection

from .task import Task


def names(choices: Sequence[tuple[str, str]], connection: Connection) -> None:
    """See :func:`.worker.send_names`."""
    from .worker import send_names

    send_names(choices, connection)


def run(task: Task, connection: Connection) -> None:
    """See :func:`.worker.run`."""
    from .worker import run as run_in_worker

    run_in_worker(task, connection)
