"""CUDA C++, compiled ahead with NVRTC for the pool's target: needs no GPU and no toolkit, 0.1 s a candidate.

A candidate carries its native code in the literals ``CUDA_SOURCE`` and ``CUDA_FLAGS``, kernels as ``extern "C"
__global__``, and loads and launches them with :data:`LOADER` (docs/cuda-candidates.md).
"""

import asyncio
import os
import platform
import re
import sys
import tempfile
from pathlib import Path

import msgspec

from ...schemas import CompileReport, Diagnostic, HardwareFacts, Pool, PoolError, decode, encode
from ..processes.limited_command import Finished, run_limited
from ..sources.native_source import Refused, check_flags, native_source
from . import _cubin
from ._cuda_loader import BASE_FLAGS, LOADER
from ._cuda_request import Request, Result
from ._gpu import compiler_limits, misfits, target_of
from .artifact_cache import ArtifactCache
from .reports import error, has_errors, key_of, report_of, unexplained

NAME = "cuda"
SUFFIX = ".cubin"
MEDIA_TYPE = "application/x-cubin"
MOST_DIAGNOSTICS = 40
_AHEAD = f"{__package__}._nvrtc_ahead"
_ENVIRONMENT = ("PYTHONPATH", "CUDA_HOME")

ALLOWED_FLAGS = re.compile(
    r"-[DU][A-Za-z_]\w*(=[\w.+-]*)?|--?std=c\+\+(11|14|17|20)|--?use_fast_math|--?extra-device-vectorization|-w"
    r"|--?maxrregcount=\d+|--?(ftz|prec-sqrt|prec-div|fmad)=(true|false)|--?restrict|-lineinfo|--?generate-line-info"
    r"|--?device-as-default-execution-space|--?no-source-include|--?diag-suppress=[\d,]+"
)
"""What ``CUDA_FLAGS`` may hold. An allow-list: others read and write files."""

_MESSAGE = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): "
    r"(?P<severity>catastrophic error|error|warning)(?: #[\w-]+)?: (?P<message>.*)$"
)


def artifact_key(text: str, flags: tuple[str, ...], target: str) -> str:
    """Name of the artifact without ``.cubin``: sha256 of the canonical JSON of language, source, flags and target."""
    return key_of(NAME, text, flags, target)


def exact_target(target: str) -> str:
    """``sm_90`` as NVRTC is asked for it: ``sm_90a``, with the instructions that only this generation has."""
    return f"{target}a" if target[-1].isdigit() and int(target.removeprefix("sm_")) >= 90 else target


async def compile(
    source: str, *, pool: Pool, hardware: HardwareFacts, cache: Path
) -> tuple[CompileReport, dict[str, Path]]:
    """Compile the candidate file ``source``; its artifact is ``cache/<artifact_key>.cubin``.

    Safe to call at once from several tasks and processes with the same cache; cancelling kills the compiler.

    Returns:
        The report, and the artifact's path by its sha256 (empty for a candidate without ``CUDA_SOURCE``).

    Raises:
        PoolError: there is no NVRTC, or the pool has no target.
        InputError: the cache cannot be written.
    """
    try:
        native = native_source(source, "CUDA")
        if native is not None:
            check_flags(native.flags, ALLOWED_FLAGS, {})
    except Refused as refused:
        return CompileReport(ok=False, language=NAME, compiler="nvrtc", diagnostics=(refused.diagnostic,)), {}
    if native is None:
        return CompileReport(ok=True, language=NAME, compiler=""), {}
    request = Request(source=native.text, flags=native.flags, target=exact_target(target_of(pool, hardware)))

    async def build(folder: Path) -> tuple[CompileReport, str]:
        finished = await _run(request, folder, pool, hardware)
        return _report(folder / "result.json", finished, request, pool, hardware), "kernel.cubin"

    key = artifact_key(request.source, request.flags, request.target)
    machine = [request.target, platform.machine()]
    return await ArtifactCache(cache, SUFFIX, MEDIA_TYPE).built(key, machine, build)


async def intermediate(source: str, *, pool: Pool, hardware: HardwareFacts) -> str:
    """PTX of the candidate file ``source``, compiled for it; empty if it does not compile or has no native code.

    Raises:
        PoolError: there is no NVRTC, or the pool has no target.
    """
    native = native_source(source, "CUDA")
    if native is None:
        return ""
    request = Request(source=native.text, flags=native.flags, target=exact_target(target_of(pool, hardware)))
    with tempfile.TemporaryDirectory(prefix="kernelswarm-ptx-") as folder:
        await _run(request, Path(folder), pool, hardware)
        return await asyncio.to_thread(Path(folder, "kernel.ptx").read_text)


def assembly(cubin: Path) -> dict[str, str]:
    """SASS of an artifact, by file name.

    Raises:
        PoolError: no ``cuobjdump`` is here, or it does not know the file.
    """
    return {f"{cubin.stem[:8]}.sass": _cubin.machine_code(cubin)}


async def _run(request: Request, folder: Path, pool: Pool, hardware: HardwareFacts) -> Finished:
    (folder / "request.json").write_bytes(encode(request))
    return await run_limited(
        [sys.executable, "-P", "-m", _AHEAD, str(folder)],
        cwd=folder,
        limits=compiler_limits(pool, hardware),
        environment={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
    )


def _report(path: Path, finished: Finished, request: Request, pool: Pool, hardware: HardwareFacts) -> CompileReport:
    try:
        result = decode(path.read_bytes(), Result)
        diagnostics = read_log(result.log)
    except (OSError, msgspec.DecodeError):
        result = Result()
        diagnostics = (unexplained(finished, pool, "NVRTC"),)
    if result.missing:
        raise PoolError(result.missing)
    if not result.ok and not has_errors(diagnostics):
        message = next((line for line in result.log.splitlines() if line.strip()), "NVRTC gave no reason")
        diagnostics = (error(message.strip()), *diagnostics)
    diagnostics = (*diagnostics, *misfits(result.kernels, hardware))
    if result.unmeasured:
        diagnostics = (
            *diagnostics,
            Diagnostic(severity="warning", message=f"resources are unknown: {result.unmeasured}"),
        )
    return report_of(
        finished,
        ok=result.ok and not has_errors(diagnostics),
        language=NAME,
        compiler=f"nvrtc for {request.target}",
        flags=BASE_FLAGS + request.flags,
        diagnostics=diagnostics,
        log=result.log,
        kernels=result.kernels,
        isolation="+".join(result.isolation),
    )


def read_log(log: str) -> tuple[Diagnostic, ...]:
    """Errors and warnings of NVRTC's ``log``, in order, at most ``MOST_DIAGNOSTICS``; lines count in CUDA_SOURCE."""
    diagnostics = []
    for match in filter(None, map(_MESSAGE.match, log.splitlines())):
        here = match["file"] == "kernel.cu"
        message = match["message"] if here else f"{match['message']} (in {match['file'].rpartition('/')[2]})"
        severity = "warning" if match["severity"] == "warning" else "error"
        diagnostics.append(Diagnostic(severity=severity, message=message, line=int(match["line"]) if here else 0))
    return tuple(dict.fromkeys(diagnostics))[:MOST_DIAGNOSTICS]


__all__ = ["ALLOWED_FLAGS", "BASE_FLAGS", "LOADER", "NAME", "artifact_key", "assembly", "compile", "intermediate"]
