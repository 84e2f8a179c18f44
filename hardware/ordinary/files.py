"""Times a finished file in ordinary processes, on any machine: what ``kernelswarm time`` does."""

import ast
from pathlib import Path

from ...schemas import HardwareFacts, InputError, Pool, Problem, Schema, Timing, sha256
from ...schemas.pool import BASELINES
from ..assembly import language_of
from ..harness.admitting import admit
from ..harness.launcher import Launcher
from ..import_statements import bound
from ..languages import find_language
from ..lease import Lease
from ..native_source import Refused, module_literal, parsed
from ..problem_files import problem_format
from .host import OrdinaryHost, Settings
from .process import Missing

REFERENCE, CANDIDATE = "KERNELSWARM_REFERENCE", "KERNELSWARM_CANDIDATE"
"""Literals of a finished file: the problem and the candidate that it was made of."""


class TimedFile(Schema, frozen=True, kw_only=True):
    """What timing a finished file in ordinary processes came to."""

    problem: str
    """The problem's name."""

    timing: Timing | None
    missing: str = ""
    """Why there is no timing; one clause."""

    baselines_missing: dict[str, str] = {}
    """Baselines that could not be timed, and why."""


def carried_problem(text: str, file: str) -> Problem:
    """The problem that the finished file ``text`` carries; ``file`` names it in messages.

    Raises:
        InputError: it is no Python, or carries none.
    """
    try:
        tree = parsed(text)
        source = module_literal(tree, REFERENCE)
    except Refused as refused:
        raise InputError(f"{file}: {refused}; give a file that kernelswarm has written") from None
    if not isinstance(source, str):
        raise InputError(f"{file} does not carry its problem: name the problem's file with --problem")
    name = _searched_name(tree) or Path(file).stem
    return Problem(
        name=name, format=problem_format(bound(ast.parse(source)), file), source=source, sha256=sha256(source)
    )


async def time_file(text: str, problem: Problem, pool: Pool, hardware: HardwareFacts, home: Path) -> TimedFile:
    """Time the finished file ``text`` against eager, ``torch.compile`` and max-autotune of ``problem``.

    Raises:
        InputError: the pool is an accelerator, or caches under ``home`` cannot be written.
        ProblemError: the problem cannot be timed on this pool.
    """
    if hardware.accelerators:
        raise InputError(f"pool {pool.name} is an accelerator, on which no ordinary processes are timed yet: use cpu")
    launcher, lease = Launcher(pool, hardware, home), Lease(pool, home)
    try:
        async with lease.shared():
            facts = await admit(launcher, problem)
            await _compile(text, pool, hardware, home)
    finally:
        await launcher.close()
    return await _timed(OrdinaryHost(Settings(pool, hardware, home, BASELINES), problem, facts), text, lease)


async def _timed(host: OrdinaryHost, text: str, lease: Lease) -> TimedFile:
    timing, missing = None, ""
    try:
        timing = await host.time(text, lease)
    except Missing as reason:
        missing = str(reason)
    finally:
        await host.close()
    return TimedFile(problem=host.problem.name, timing=timing, missing=missing, baselines_missing=dict(host.missing))


async def _compile(text: str, pool: Pool, hardware: HardwareFacts, home: Path) -> None:
    """Put its native code where the file looks first: behind the walls it may not start a compiler.

    What does not compile shows when the file is loaded.
    """
    try:
        candidate = module_literal(parsed(text), CANDIDATE)
    except Refused:
        return
    source = candidate if isinstance(candidate, str) else text
    language = find_language(language_of(source, pool.languages[0]))
    await language.compile(source, pool=pool, hardware=hardware, cache=home / "artifacts")


def _searched_name(tree: ast.Module) -> str:
    """The problem's name, as the file says what it was searched for."""
    try:
        searched = module_literal(tree, "SEARCHED")
    except Refused:
        return ""
    return str(searched.get("problem", "")) if isinstance(searched, dict) else ""
