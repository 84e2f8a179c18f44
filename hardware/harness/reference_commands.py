"""Sends commands to a process that runs the problem's own code."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ...schemas import HarnessError, Problem, ReferenceDied
from ..machine.lease import Share
from ..machine.slices import ask_in_slices
from ..processes.messages import Failure
from ..processes.worker import Worker, WorkerConfused
from .messages.commands import Open

T = TypeVar("T")

STEP_SECONDS = 300.0
"""Limit for one step of a problem's own code."""


def open_command(problem: Problem, seed: int, pool: str, weight_exponents: Mapping[str, int] | None = None) -> Open:
    """How a child opens ``problem``."""
    return Open(
        name=problem.name,
        format=problem.format,
        source=problem.source,
        seed=seed,
        device=pool,
        weight_exponents=dict(weight_exponents or {}),
    )


async def ask_reference(
    worker: Worker,
    command: object,
    kind: type[T],
    descriptors: Sequence[int] = (),
    *,
    seconds: float = STEP_SECONDS,
    share: Share | None = None,
) -> tuple[T, list[int]]:
    """Ask a process that runs the problem's own code; if it works for ``share``, it stands still for whoever waits.

    Raises:
        WorkerDied: it ended.
        ReferenceDied: it took longer than ``seconds``, and was killed.
        HarnessError: it cannot do what problem validation saw it do.
    """
    try:
        if share is None:
            answer, received = await worker.ask(command, kind, descriptors, seconds=seconds)
        else:
            answer, received = await ask_in_slices(worker, command, kind, descriptors, share, seconds=seconds)
    except TimeoutError:
        raise ReferenceDied(f"the reference did not end within {seconds:g} s") from None
    except WorkerConfused as error:
        raise HarnessError(f"the reference's process answered nonsense: {error}") from error
    if isinstance(answer, Failure):
        raise HarnessError(f"the reference failed although it was validated: {answer.message}\n{answer.log}".strip())
    return answer, received
