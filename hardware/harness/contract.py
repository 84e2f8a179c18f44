"""Tests whether a finished file is a drop-in for its reference. The child's side: :mod:`.children.contract_suite`."""

from ...schemas import CompileReport, ContractProperty
from ..languages.program_runs import starts_programs
from ..machine.lease import Lease
from ..machine.slices import NO_LIMIT, in_slices
from ..processes.messages import Failure
from ..processes.worker import WorkerConfused, WorkerDied
from .calls.answering import describe
from .launcher import Launcher
from .messages.contract import CheckContract, ContractChecked


async def contract_of(
    launcher: Launcher, lease: Lease, source: str, compiled: CompileReport, *, seconds: float
) -> tuple[ContractProperty, ...]:
    """Hold the finished file ``source`` against the contract, in a process of its own, as a sharer of ``lease``.

    It compiles most of the time, and stands still while somebody times something.

    What was ``compiled`` of it is not compiled again: programs that it runs for that are played back, and Triton finds
    its kernels.

    A file that breaks the process, or takes longer than ``seconds``, has none of the properties that a win needs.

    Raises:
        HarnessError: no process can be started.
    """
    built = compiled.names(".build")
    compiles = "triton" in source or (not built and starts_programs(source))
    async with lease.shared():
        worker = await launcher.spawn("contract", programs=compiles)
    command = CheckContract(
        source=source, artifacts=str(launcher.artifacts), built=built, ahead=compiled.names(".triton")
    )
    try:
        answer, _ = await in_slices(
            lambda: worker.ask(command, ContractChecked, seconds=NO_LIMIT), lease, worker.send, limit_s=seconds
        )
    except TimeoutError:
        return _broken(f"it did not end within {seconds:g} s")
    except (WorkerDied, WorkerConfused) as error:
        return _broken(f"its process ended: {describe(error)}")
    finally:
        await worker.kill()
    return _broken(answer.message) if isinstance(answer, Failure) else answer.properties


def _broken(detail: str) -> tuple[ContractProperty, ...]:
    return (ContractProperty(name="the suite", ok=False, is_essential=True, detail=detail),)
