"""The child process of one operator: draws its samples, checks them, and sends a row after each.

The fork server imports this once for all of them: torch and its lists take ten seconds.
"""

import contextlib
import os
import resource
import sys
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import torch

from .checking import Checked, check
from .row import RIGHT, Outcome, Row
from .sample import Sample
from .samples import names_of, samples_of
from .task import Task, rows_of

# A process that has run threads of OpenMP's cannot be forked.
torch.set_num_threads(1)

MEMORY_BYTES = 16 << 30
"""Address space of a child without a GPU."""


def send_names(choices: Sequence[tuple[str, str]], connection: Connection) -> None:
    """Send the names of every (list, dtype) in ``choices``."""
    connection.send([names_of(list_name, dtype) for list_name, dtype in choices])
    connection.close()


def run(task: Task, connection: Connection) -> None:
    """Check every sample of ``task``: send its number before it, and its rows."""
    _prepare(task)
    try:
        _send_rows(task, connection)
    except Exception as error:  # noqa: BLE001 - of the list's own code: what raises in a check is a row there
        for row in rows_of(task, -1, Outcome.excluded, f"no samples: the list raises {type(error).__name__}: {error}"):
            connection.send(row)
    connection.close()


def _send_rows(task: Task, connection: Connection) -> None:
    count = 0
    for number, sample in samples_of(task.list, task.name, task.dtype, task.samples):
        count += 1
        connection.send(number)
        for checked in check(sample, task.name, task.languages):
            connection.send(_row(task, number, sample, checked))
    if not count:
        for row in rows_of(task, -1, Outcome.excluded, "no samples: the list has none in this dtype"):
            connection.send(row)


def _prepare(task: Task) -> None:
    warnings.simplefilter("ignore")
    os.environ["XDG_CACHE_HOME"] = task.cache
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not torch.cuda.is_available():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.dup2(nowhere, sys.stderr.fileno())


def _row(task: Task, number: int, sample: Sample, checked: Checked) -> Row:
    verdicts = (checked.captured, checked.other)
    causes = [verdict.cause for verdict in verdicts if verdict.outcome not in RIGHT and verdict.cause]
    return Row(
        list=task.list,
        name=task.name,
        sample=number,
        dtype=task.dtype,
        language=checked.language,
        captured=checked.captured.outcome,
        other=checked.other.outcome,
        kernels=checked.kernels,
        cause=causes[0] if causes else "",
        inputs=_described(sample.inputs),
        seconds=round(checked.seconds, 2),
        versions=task.versions,
    )


def _described(inputs: list[Any]) -> str:
    texts = [
        f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}" if isinstance(value, torch.Tensor) else "…"
        for value in inputs
    ]
    return ", ".join(texts)[:160]
