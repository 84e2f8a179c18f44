"""Times a finished file in ordinary processes, on any machine: what ``kernelswarm time`` does."""

import ast
import asyncio
from collections.abc import Callable
from pathlib import Path

from ...schemas import HardwareFacts, InputError, Pool, Problem, Schema, Timing, sha256
from ...schemas.pool import BASELINE_NAMES, BASELINES
from ..harness.launcher import Launcher
from ..harness.validation_process import validate_problem
from ..languages import triton
from ..languages.assembly import language_of, language_taken
from ..languages.compiling import compile_candidate
from ..machine.lease import Lease
from ..platforms import detect
from ..pools.pool_files import find_pool
from ..sources.import_statements import bound
from ..sources.native_source import Refused, module_literal, parsed
from ..sources.parsing import parse
from ..sources.problem_files import LARGEST_CANDIDATE, LARGEST_FILE, load_problem, near_file, problem_format
from .process import Missing
from .settings import Settings
from .timed_shapes import OrdinaryHosts

REFERENCE, CANDIDATE = "KERNELSWARM_REFERENCE", "KERNELSWARM_CANDIDATE"
"""Literals of a finished file: the problem and the candidate that it was made of."""


MOST_BYTES = LARGEST_CANDIDATE + LARGEST_FILE
"""A finished file carries a problem and a candidate."""


class TimedFile(Schema, frozen=True, kw_only=True):
    """What timing a finished file in ordinary processes came to."""

    problem: str
    """The problem's name."""

    timing: Timing | None
    missing: str = ""
    """Why there is no timing; one clause."""

    accelerator: str = ""
    """Name of the accelerator on which it was timed: what was timed is the call, not the device. Empty: a processor."""

    baselines_missing: dict[str, str] = {}
    """Baselines that could not be timed, and why."""

    def __repr__(self) -> str:
        where = f"as a call on {self.accelerator}" if self.accelerator else "in ordinary processes"
        if self.timing is None:
            return f"{self.problem}: not timed {where}: {self.missing}"
        speedups = (f"{interval} of {BASELINE_NAMES.get(name, name)}" for name, interval in self.timing.speedup.items())
        times = (f"{BASELINE_NAMES.get(name, 'kernel')} {ms:.4g} ms" for name, ms in self.timing.median_ms.items())
        missing = (f"without {BASELINE_NAMES.get(name, name)}: {why}" for name, why in self.baselines_missing.items())
        return "\n".join((f"{self.problem} {where}: {', '.join(speedups)}", ", ".join(times), *missing))


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
    return Problem(name=name, format=problem_format(bound(parse(source)), file), source=source, sha256=sha256(source))


Notify = Callable[[str], None]


async def time_path(
    file: Path, problem: Path | None, pool: str, home: Path, on_notice: Notify = lambda _: None
) -> TimedFile:
    """Time the finished file at ``file`` in ordinary processes of this machine; ``problem`` if it does not carry it.

    ``on_notice`` is told in a few words what is happening: all of it takes a minute or more.

    Raises:
        InputError: a file or the pool cannot be used.
        ProblemError: the problem cannot be timed on this pool.
    """
    place, text = find_pool(pool, home), _read(file)
    loaded = load_problem(problem) if problem is not None else carried_problem(text, file.name)
    language_taken(text, place, file)
    on_notice(f"looking at the hardware of pool {place.name}")
    return await time_file(text, loaded, place, await asyncio.to_thread(detect, place, home), home, on_notice)


def _read(file: Path) -> str:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file} has {file.stat().st_size} bytes: that is no finished file")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        meant = near_file(file) if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"cannot read {file}: {reason}{meant or '; give the best.py of a search'}") from error


async def time_file(
    text: str, problem: Problem, pool: Pool, hardware: HardwareFacts, home: Path, on_notice: Notify = lambda _: None
) -> TimedFile:
    """Time the finished file ``text`` against eager, ``torch.compile`` and max-autotune of ``problem``.

    Raises:
        InputError: caches under ``home`` cannot be written.
        ProblemError: the problem cannot be timed on this pool.
    """
    accelerator = next(iter(hardware.accelerators), None)
    launcher = Launcher(pool, hardware, home, accelerator, standby=0)
    lease = Lease(pool, home, accelerator.uuid if accelerator else "")
    try:
        on_notice(f"validating {problem.name}: importing, checking")
        facts = await validate_problem(launcher, lease, problem, accelerator)
        on_notice("compiling what the file has of native code")
        async with lease.shared():
            await _compile(text, pool, hardware, home)
    finally:
        await launcher.close()
    settings = Settings(pool, hardware, home, BASELINES, accelerator)
    hosts = OrdinaryHosts(settings, problem, facts)
    hosts.notify = on_notice
    return await _timed(hosts, text, lease)


async def _timed(host: OrdinaryHosts, text: str, lease: Lease) -> TimedFile:
    timing, missing = None, ""
    try:
        timing = await host.time(text, lease)
    except Missing as reason:
        missing = str(reason)
    finally:
        await host.close()
    return TimedFile(
        problem=host.problem.name,
        timing=timing,
        missing=missing,
        accelerator=host.settings.accelerator.name if host.settings.accelerator else "",
        baselines_missing=dict(host.missing),
    )


async def _compile(text: str, pool: Pool, hardware: HardwareFacts, home: Path) -> None:
    """Put its native code where the file looks first: behind the walls it may not start a compiler.

    What does not compile shows when the file is loaded. Triton's kernels are compiled there in any case.
    """
    try:
        candidate = module_literal(parsed(text), CANDIDATE)
    except Refused:
        return
    source = candidate if isinstance(candidate, str) else text
    language = language_of(source, pool.languages[0])
    if language != triton.NAME:
        await compile_candidate(source, language, pool=pool, hardware=hardware, cache=home / "artifacts")


def _searched_name(tree: ast.Module) -> str:
    """The problem's name, as the file says what it was searched for."""
    try:
        searched = module_literal(tree, "SEARCHED")
    except Refused:
        return ""
    return str(searched.get("problem", "")) if isinstance(searched, dict) else ""
