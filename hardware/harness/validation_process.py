"""Validates a problem in a process of its own. The supervisor's side of :mod:`.children.problem_validation`."""

import asyncio
import signal
from collections.abc import Iterator
from typing import NamedTuple

from ...schemas import Accelerator, HarnessError, InputFact, Problem, ProblemError, ProblemFacts, ShapeFacts
from ..machine.lease import Lease
from ..machine.slices import ask_in_slices
from ..processes.machine_load import load_text
from ..processes.messages import Failure
from ..processes.worker import WorkerConfused, WorkerDied
from .inputs.sizes import MAIN_SEEDS, bytes_of, is_large
from .inputs.variants import planned
from .judgement import ran_out_of_memory
from .launcher import Launcher
from .messages.commands import ProblemValidated, ValidateProblem
from .messages.state import INPUT
from .reference_commands import open_command

VALIDATION_SECONDS = 180.0
"""How long a problem is examined, without what its process waits for a core or stands still."""


class OutOfMemory(ProblemError):
    """A problem's process ran out of memory while it was examined: with the device for itself it may fit."""

    def __init__(self, message: str, needed_bytes: int = 0) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
        """Of an accelerator: so much its tensors are expected to take; 0: not known."""


WEIGHTS_SEED = 0


async def validate_problem(
    launcher: Launcher, lease: Lease, problem: Problem, accelerator: Accelerator | None = None, memory_bytes: int = 0
) -> ProblemFacts:
    """Find out everything the search needs to know of ``problem``; ``accelerator`` is what it will run on.

    The process that does shares ``lease``, and stands still while somebody times something. ``memory_bytes``: of the
    accelerator that its tensors may take meanwhile; 0: no limit.

    Raises:
        ProblemError: it cannot be searched on this pool; one sentence with the way out.
        OutOfMemory: the same, where neighbours or the limit may have been the reason.
        HarnessError: the examining process answered nonsense.
    """
    async with lease.shared():
        worker = await launcher.spawn("admission")
    command = ValidateProblem(
        problem=open_command(problem, WEIGHTS_SEED, launcher.pool_name), memory_bytes=memory_bytes
    )
    try:
        async with lease.shared(makes_way=True) as share:
            answer, _ = await ask_in_slices(worker, command, ProblemValidated, (), share, seconds=VALIDATION_SECONDS)
    except TimeoutError:
        raise ProblemError(
            f"{problem.name}.py was not examined within {VALIDATION_SECONDS:g} s{load_text()}; use smaller shapes"
        ) from None
    except WorkerDied as error:
        # Killed: by the system, which is out of main memory; nobody else ends such a process.
        is_killed = error.ended.signal == signal.SIGKILL
        if is_killed or ran_out_of_memory(worker.output):
            short = _main_memory(launcher) if is_killed else _own_memory(launcher, accelerator)
            raise OutOfMemory(_too_large(problem, short)) from None
        raise ProblemError(f"{problem.name}.py ends its process ({error}) when it is imported or run") from None
    except WorkerConfused as error:
        raise HarnessError(f"the examining process answered nonsense: {error}") from error
    finally:
        await asyncio.shield(worker.kill())
    if not isinstance(answer, Failure):
        for needed_bytes, memory in _needed(answer.facts, launcher, accelerator):
            if needed_bytes > memory.size:
                raise ProblemError(_too_large(problem, memory, needed_bytes))
        return answer.facts
    if answer.kind == "memory":
        raise OutOfMemory(_too_large(problem, _own_memory(launcher, accelerator)), answer.needed_bytes)
    raise ProblemError(answer.message)


class _Memory(NamedTuple):
    """One that a problem may be too large for."""

    size: int
    owner: str
    """What its size is followed by."""
    way_out: str = ""
    """Beside smaller shapes."""


def _main_memory(launcher: Launcher) -> _Memory:
    return _Memory(launcher.reference_memory, "of this machine's main memory")


def _own_memory(launcher: Launcher, accelerator: Accelerator | None) -> _Memory:
    """The one that a problem's tensors lie in."""
    if accelerator is not None:
        return _Memory(accelerator.memory_bytes, f"of {accelerator.name}")
    return _Memory(
        launcher.memory, f"that pool {launcher.pool_name} gives a candidate", " or raise candidate_memory_bytes"
    )


def _needed(facts: ProblemFacts, launcher: Launcher, accelerator: Accelerator | None) -> Iterator[tuple[int, _Memory]]:
    """Bytes that judging needs, not only one call, of each of the two memories."""
    own, main = memory_needed(facts) if accelerator is None else memory_needed_on_device(facts)
    yield own, _own_memory(launcher, accelerator)
    yield main, _main_memory(launcher)


def memory_needed(facts: ProblemFacts) -> tuple[int, int]:
    """Bytes that a candidate's process, and the whole machine, need at least to judge a candidate on a processor.

    A candidate holds three input sets, each as it came and as tensors, and their outputs; the machine also holds the
    cases, their oracles and weights in float64, and the copies that the baselines are timed on. The timed shape has
    cases of derived inputs, one at a larger shape, and three more where calls in a row are compared. Of large inputs
    there is one set less, and the oracles are kept in float32. Further timed shapes have as much of their own.
    """
    inputs, outputs = largest_call(facts)
    candidate = 5 * inputs + 4 * outputs if is_large(inputs, outputs) else 6 * inputs + 5 * outputs
    calls = [(inputs, outputs), *_further_calls(facts)]
    return candidate, candidate + sum(_kept(facts, *call) for call in calls)


def _kept(facts: ProblemFacts, inputs: int, outputs: int) -> int:
    """Bytes of cases, oracles and copies of a timed shape on a processor."""
    if is_large(inputs, outputs):
        return 10 * inputs + 13 * outputs
    derived = _derived_cases(inputs, outputs)
    cases, oracles = 8 + derived, 24 + 4 * derived
    if any(fact.kind != INPUT for fact in facts.state):
        cases, oracles = cases + MAIN_SEEDS, oracles + 3 * MAIN_SEEDS
    return cases * inputs + oracles * outputs


def memory_needed_on_device(facts: ProblemFacts) -> tuple[int, int]:
    """Bytes that an accelerator, and the main memory beside it, need at least to judge a candidate.

    On the device lie what candidate and baselines are timed on, their outputs, the oracles, and, while one is made,
    inputs and outputs in float64. In main memory lie the cases' inputs, a draw, and outputs on their way.
    Of large ones all cases are made before the first candidate, and one candidate is judged at a time: five oracles lie
    beside five times the outputs (once as they are, twice in float64) while the sixth is made. Of others six cases
    are made before, four of which are timed in turn. Further timed shapes have as much of their own.
    """
    needed = [_needed_on_device(*call) for call in (largest_call(facts), *_further_calls(facts))]
    return sum(device for device, _ in needed), sum(host for _, host in needed)


def _needed_on_device(inputs: int, outputs: int) -> tuple[int, int]:
    if is_large(inputs, outputs):
        return 5 * inputs + 10 * outputs, 8 * inputs + 2 * outputs
    derived = _derived_cases(inputs, outputs)
    return 16 * inputs + (35 + 4 * derived) * outputs, (9 + derived) * inputs + 3 * outputs


def _derived_cases(inputs: int, outputs: int) -> int:
    """How many cases of derived inputs the timed shape has."""
    return len(planned({"main": inputs}, {"main": inputs + outputs}))


def _further_calls(facts: ProblemFacts) -> list[tuple[int, int]]:
    """Bytes of inputs and of outputs at every timed shape but the largest."""
    calls = [(sum(map(_bytes, shape.inputs)), sum(map(_bytes, shape.outputs))) for shape in facts.timed]
    return sorted(calls, key=sum)[:-1]


def largest_call(facts: ProblemFacts) -> tuple[int, int]:
    """Bytes of inputs and of outputs at the shapes where they are largest."""
    inputs = max(sum(map(_bytes, shape.inputs)) for shape in facts.shapes)
    return inputs, max(sum(map(_bytes, shape.outputs)) for shape in facts.shapes)


def is_large_call(shape: ShapeFacts) -> bool:
    """Whether a call at ``shape`` is so large that memory holds few copies of it."""
    return is_large(sum(map(_bytes, shape.inputs)), sum(map(_bytes, shape.outputs)))


def _bytes(fact: InputFact) -> int:
    return bytes_of(fact.shape, fact.dtype)


def _too_large(problem: Problem, memory: _Memory, needed_bytes: int = 0) -> str:
    """``needed_bytes``: 0 where nobody knows."""
    needed = f"need {needed_bytes / 2**30:.1f} GiB of" if needed_bytes else "in"
    return (
        f"{problem.name}.py does not fit in memory (several copies of its inputs and outputs {needed} the "
        f"{memory.size / 2**30:.1f} GiB {memory.owner}); use smaller shapes{memory.way_out}"
    )
