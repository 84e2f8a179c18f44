"""Has a problem examined in a process of its own. The supervisor's side of :mod:`.admission`."""

import asyncio

from ...schemas import HarnessError, Problem, ProblemError, ProblemFacts
from .case_host import open_command
from .judgement import ran_out_of_memory
from .launcher import Launcher
from .messages import Admit, Admitted, Failure
from .worker import WorkerConfused, WorkerDied

ADMISSION_SECONDS = 180.0
WEIGHTS_SEED = 0


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
        return answer.facts
    if answer.kind == "memory":
        raise ProblemError(_too_large(problem, launcher))
    raise ProblemError(answer.message)


def _too_large(problem: Problem, launcher: Launcher) -> str:
    return (
        f"{problem.name}.py does not fit in the {launcher.memory / 2**30:.1f} GiB that pool {launcher.pool_name} gives "
        "it; use smaller shapes or raise candidate_memory_bytes"
    )
