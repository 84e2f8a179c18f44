"""The build step of files that compile for themselves: ``load_inline``, ``load``, or a compiler that they start.

They are imported once in the compiler's jail (:mod:`.program_runs`); what they ran there is the artifact.
"""

import asyncio
import errno
import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

from msgspec.structs import replace

from ...schemas import CompileReport, Diagnostic, HardwareFacts, Pool
from ..machine.compilers import Compiler, find_compiler
from ..processes.limited_command import Finished, Limits, run_limited
from ..processes.linux import LESS_URGENT
from . import program_runs
from ._gpu import target_of
from .artifact_cache import ArtifactCache, Irregular
from .cuda import exact_target
from .reports import error, report_of

MEDIA_TYPE = "application/zip"
LEAST_SECONDS = 240.0
"""PyTorch's own headers take half a minute."""
LARGEST_FILE = 256 << 20
LEAST_MEMORY, TORCH_BYTES = 2 << 30, 16 << 30
"""Bytes: for PyTorch's headers in a compiler, and the address space that importing torch takes."""
_CUDA_HOME, _CUDA_TARGET = "CUDA_HOME", "TORCH_CUDA_ARCH_LIST"
_READ_ONLY = os.strerror(errno.EROFS)
_NO_ARCHIVE = "it ended the process, or replaced what was to be kept of it, while it was imported"
_NO_CUDA = "it compiles CUDA code, and this machine has no CUDA toolkit: name a pool whose machine has one"
_WHERE_TO_WRITE = "; write into a folder of tempfile.mkdtemp(), the home folder or the working folder"


async def build(
    source: str, language: str, *, pool: Pool, hardware: HardwareFacts, cache: Path
) -> tuple[CompileReport, dict[str, Path]]:
    """Import ``source`` where it may compile, and keep what it ran.

    CUDA code is compiled for the pool's target, on a machine that needs a toolkit and no GPU.

    Raises:
        PoolError: no C++ compiler is installed.
        InputError: the cache cannot be written.
    """
    compiler = await asyncio.to_thread(find_compiler, pool)
    cuda = _cuda(pool, hardware)
    reports: list[CompileReport] = []

    async def build_in(folder: Path) -> tuple[CompileReport, str]:
        await asyncio.to_thread(_write_files, folder, source)
        seconds = max(pool.candidate_seconds, LEAST_SECONDS)
        memory = max(pool.candidate_memory_bytes or hardware.memory_bytes // 2, LEAST_MEMORY)
        finished = await run_limited(
            [sys.executable, "-P", "program_runs.py", "candidate.py", f"kernel{program_runs.SUFFIX}"],
            cwd=folder,
            limits=Limits(seconds, memory + TORCH_BYTES, LARGEST_FILE, LESS_URGENT),
            environment={
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
                **cuda,
            },
            readable=(*compiler.files, *_python(), *filter(None, [cuda.get(_CUDA_HOME)])),
            filtered=True,
        )
        reports.append(_report(finished, language, compiler, seconds))
        return reports[0], f"kernel{program_runs.SUFFIX}"

    # What recorded the programs is what can play them back.
    recorder = await asyncio.to_thread(Path(program_runs.__file__).read_text)
    key = hashlib.sha256(f"build\0{recorder}\0{source}".encode()).hexdigest()
    # A GPU pool's target stands for its device: who compiles for it may have none.
    device = cuda.values() or (hardware.device, *hardware.isa)
    machine = [str(compiler), compiler.path, sys.version, *device]
    try:
        return await ArtifactCache(cache, program_runs.SUFFIX, MEDIA_TYPE).built(key, machine, build_in)
    except Irregular:
        return replace(reports[0], ok=False, diagnostics=(error(_NO_ARCHIVE),)), {}


def _cuda(pool: Pool, hardware: HardwareFacts) -> dict[str, str]:
    """Variables by which PyTorch finds the toolkit, and what to compile for where no GPU is to be seen."""
    if pool.platform != "nvidia":
        return {}
    target = exact_target(target_of(pool, hardware)).removeprefix("sm_")
    digits = target.rstrip("af")
    variables = {_CUDA_TARGET: f"{digits[:-1]}.{digits[-1]}{target[len(digits) :]}"}
    home = os.environ.get(_CUDA_HOME)
    return variables | ({_CUDA_HOME: home} if home else {})


def _write_files(folder: Path, source: str) -> None:
    (folder / "candidate.py").write_text(source, encoding="utf-8", errors="replace")
    shutil.copyfile(program_runs.__file__, folder / "program_runs.py")


def _python() -> list[str]:
    """What this Python and its packages are read from."""
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return [path for path in dict.fromkeys([sys.prefix, sys.base_prefix, *packages]) if path != "/"]


def _report(finished: Finished, language: str, compiler: Compiler, seconds: float) -> CompileReport:
    ok = finished.returncode == 0 and not finished.timed_out
    diagnostics: tuple[Diagnostic, ...] = ()
    if finished.timed_out:
        diagnostics = (error(f"importing the file took more than {seconds:g} s"),)
    elif not ok:
        lines = [line for line in finished.output.splitlines() if line.strip()]
        errors = [line for line in lines if re.search(r"\berror: ", line)] or lines[-1:] or ["it cannot be imported"]
        message = errors[0].strip()[:500] + (_WHERE_TO_WRITE if _READ_ONLY in errors[0] else "")
        if "CUDA_HOME" in message:
            message = f"{_NO_CUDA} ({message})"
        diagnostics = (error(message),)
    return report_of(finished, ok=ok, language=language, compiler=str(compiler), diagnostics=diagnostics)
