"""Has a problem examined in a process of its own. The supervisor's side of :mod:`.admission`."""

import asyncio
import math

from ...schemas import HarnessError, InputFact, Problem, ProblemError, ProblemFacts
from .case_host import open_command
from .judgement import ran_out_of_memory
from .launcher import Launcher
from .messages import Admit, Admitted, Failure
from .worker import WorkerConfused, WorkerDied

ADMISSION_SECONDS = 180.0
WEIGHTS_SEED = 0

_WIDTHS = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4,
    "complex128": 16,
}  # fmt: skip
"""Bytes of an element; 8 for the others."""


async def admit(launcher: Launcher, problem: Problem) -> ProblemFacts:
    """Find out everything the search needs to know of ``problem``.

    Raises:
        ProblemError: it cannot be searched on this pool; one sentence with the way out.
        HarnessError: the examining process answered nonsense.
    """
    worker = await launcher.spawn("admission")
    command = Admit(problem=open_command(problem, WEIGHTS_SEED, launcher.pool_name))
    try:
        answer, _ = await worker.ask(command, Admitted, seconds=ADMISSION_SECONDS)
    except TimeoutError:
        raise ProblemError(
            f"{problem.name}.py was not examined within {ADMISSION_SECONDS:g} s; use smaller shapes"
        ) from None
    except WorkerDied as error:
        if ran_out_of_memory(worker.output):
            raise ProblemError(_too_large(problem, launcher)) from None
        raise ProblemError(f"{problem.name}.py ends its process ({error}) when it is imported or run") from None
    except WorkerConfused as error:
        raise HarnessError(f"the examining process answered nonsense: {error}") from error
    finally:
        await asyncio.shield(worker.kill())
    if not isinstance(answer, Failure):
        _check_memory(problem, answer.facts, launcher)
        return answer.facts
    if answer.kind == "memory":
        raise ProblemError(_too_large(problem, launcher))
    raise ProblemError(answer.message)


def _check_memory(problem: Problem, facts: ProblemFacts, launcher: Launcher) -> None:
    """Refuse what one call can hold but judging cannot."""
    candidate, machine = memory_needed(facts)
    if candidate > launcher.memory or machine > launcher.reference_memory:
        raise ProblemError(_too_large(problem, launcher))


def memory_needed(facts: ProblemFacts) -> tuple[int, int]:
    """Bytes that a candidate's process, and the whole machine, need at least to judge a candidate.

    A candidate holds three input sets, each as it came and as tensors, and their outputs; the machine also holds the
    cases, their oracles and weights in float64, and the copies that the baselines are timed on. Where there is only the
    timed shape, it has one case more.
    """
    inputs = max(sum(map(_bytes, shape.inputs)) for shape in facts.shapes)
    outputs = max(sum(map(_bytes, shape.outputs)) for shape in facts.shapes)
    candidate = 6 * inputs + 5 * outputs
    cases, oracles = (8, 24) if len(facts.shapes) == 1 else (7, 20)
    return candidate, candidate + cases * inputs + oracles * outputs


def _bytes(fact: InputFact) -> int:
    return math.prod(fact.shape) * _WIDTHS.get(fact.dtype, 8)


def _too_large(problem: Problem, launcher: Launcher) -> str:
    return (
        f"{problem.name}.py does not fit in memory (several copies of its inputs and outputs in the "
        f"{launcher.memory / 2**30:.1f} GiB that pool {launcher.pool_name} gives a candidate); use smaller shapes or "
        "raise candidate_memory_bytes"
    )
