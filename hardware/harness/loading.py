"""Starts a candidate's process and loads its file there."""

from ...schemas import FROM_SEED, CompileReport, Problem, Verdict
from ..processes.worker import Worker
from .judgement import judged
from .launcher import Launcher
from .messages.commands import Load, Loaded
from .reference_process import ReferenceProcess
from .untrusted import UntrustedCandidate

_NO_SCALED_WEIGHTS = (
    "ModelNew takes none of the reference's weights, and with those that a constructor makes this problem's answer "
    "hardly depends on its input: give its parameters the reference's names, or their order and shapes"
)


async def started(launcher: Launcher, compiled: CompileReport) -> Worker:
    """A process for a candidate. It may start programs only if its kernels still have to be compiled there."""
    return await launcher.candidate(programs=compiled.is_late)


async def load_into(
    untrusted: UntrustedCandidate,
    launcher: Launcher,
    host: ReferenceProcess,
    problem: Problem,
    source: str,
    compiled: CompileReport,
) -> Loaded:
    """Have the candidate imported; returns how its module took the reference's weights.

    Raises:
        Judged: it does not load.
    """
    await host.shapes()
    command = Load(
        source=source,
        format=problem.format,
        artifacts=str(launcher.artifacts),
        setup=host.setup,
        ahead=compiled.names(".triton"),
        built=compiled.names(".build"),
        backward=host.backward,
        roles=host.roles,
    )
    files = () if host.setup_file is None else (host.setup_file,)
    loaded, _ = await untrusted.ask(command, Loaded, files)
    if loaded.weights == FROM_SEED and host.has_scaled_weights:
        raise judged(Verdict.load_error, _NO_SCALED_WEIGHTS)
    return loaded
