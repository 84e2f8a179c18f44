"""Triton, compiled ahead for the pool's target: on any machine, so that the process on the GPU only loads.

A candidate says in the literal ``TRITON_LAUNCHES`` which launches it makes (docs/triton-candidates.md). Its artifact is
a piece of Triton's cache. A candidate without the list is compiled by Triton itself, at its first call.
"""

import asyncio
import importlib.metadata
import platform
import tarfile
import tempfile
from pathlib import Path

from ...schemas import CompileReport, Diagnostic, HardwareFacts, Pool, PoolError
from ..processes.limited_command import Finished
from ..sources.native_source import Refused
from . import _cubin, _triton_source
from ._gpu import compiler_limits, misfits, target_of
from ._triton_children import compile_in_child
from ._triton_runtime import prepare, unpack, use
from ._triton_source import Request, Result
from .artifact_cache import ArtifactCache
from .reports import has_errors, key_of, report_of, unexplained

NAME = "triton"
SUFFIX = ".triton"
MEDIA_TYPE = "application/x-tar"
ARCHIVE = "kernels.tar"


def artifact_key(source: str, target: str) -> str:
    """Name of the artifact without ``.triton``: sha256 of the canonical JSON of language, file and target."""
    return key_of(NAME, source, target)


async def compile(
    source: str, *, pool: Pool, hardware: HardwareFacts, cache: Path
) -> tuple[CompileReport, dict[str, Path]]:
    """Compile the launches of the candidate file ``source``; its artifact is ``cache/<artifact_key>.triton``.

    Nothing of the file runs but its kernels' definitions, and those in a process of their own without network, with
    files it can only read. Safe to call at once from several tasks and processes; cancelling kills the compiler.

    Returns:
        The report, and the artifact's path by its sha256 (empty for a candidate without ``TRITON_LAUNCHES``).

    Raises:
        PoolError: Triton is not installed, or the pool has no target.
        InputError: the cache cannot be written.
    """
    compiler = f"triton {_version()}"
    try:
        launches = _triton_source.launches_of(source)
        if not launches:
            return _without_launches(source, compiler), {}
        kernels = _triton_source.kernels_only(source)
    except Refused as refused:
        return CompileReport(ok=False, language=NAME, compiler=compiler, diagnostics=(refused.diagnostic,)), {}
    request = Request(target=target_of(pool, hardware), launches=launches, kernels=kernels)

    async def build(folder: Path) -> tuple[CompileReport, str]:
        result, finished = await compile_in_child(request, folder / "scratch", compiler_limits(pool, hardware))
        if result is not None:
            await asyncio.to_thread((folder / ARCHIVE).write_bytes, result.archive)
        return _report(result, finished, compiler, request, pool, hardware), ARCHIVE

    # Triton's keys hold its own version and files; a launcher in the artifact is for this Python.
    machine = [compiler, request.target, platform.python_version(), platform.machine()]
    key = artifact_key(source, request.target)
    return await ArtifactCache(cache, SUFFIX, MEDIA_TYPE).built(key, machine, build)


def assembly(archive: Path) -> dict[str, str]:
    """PTX and SASS of every kernel in an artifact, by file name: ``rows.1a2b3c4d.ptx``, ``rows.1a2b3c4d.sass``.

    Of kernels for AMD it is their assembler's text, ``rows.1a2b3c4d.s``.

    Raises:
        OSError, tarfile.TarError: the artifact cannot be read.
        PoolError: no ``cuobjdump`` is here.
    """
    texts: dict[str, str] = {}
    with tarfile.open(archive) as packed, tempfile.TemporaryDirectory(prefix="kernelswarm-sass-") as folder:
        packed.extractall(folder, filter="data")
        for path in sorted(Path(folder).glob("*/*")):
            stem = f"{path.stem}.{path.parent.name[:8].lower()}"
            if path.suffix == ".ptx":
                texts[f"{stem}.ptx"] = path.read_text()
            elif path.suffix == ".amdgcn":
                texts[f"{stem}.s"] = path.read_text()
            elif path.suffix == ".cubin":
                texts[f"{stem}.sass"] = _cubin.machine_code(path)
    return texts


def _without_launches(source: str, compiler: str) -> CompileReport:
    if not _triton_source.has_kernels(source):
        return CompileReport(ok=True, language=NAME, compiler="")
    message = f"no {_triton_source.LAUNCHES}: its kernels are compiled at their first call, on the GPU's time"
    return CompileReport(
        ok=True, language=NAME, compiler=compiler, diagnostics=(Diagnostic(severity="warning", message=message),)
    )


def _report(
    result: Result | None, finished: Finished, compiler: str, request: Request, pool: Pool, hardware: HardwareFacts
) -> CompileReport:
    if result is None:
        result = Result(diagnostics=(unexplained(finished, pool),))
    diagnostics = (*result.diagnostics, *misfits(result.kernels, hardware))
    return report_of(
        finished,
        ok=finished.returncode == 0 and not has_errors(diagnostics),
        language=NAME,
        compiler=compiler,
        flags=(request.target,),
        diagnostics=diagnostics,
        kernels=result.kernels,
    )


def _version() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise PoolError("Triton is not installed: `pip install triton` (Linux only)") from None


__all__ = ["NAME", "artifact_key", "assembly", "compile", "prepare", "unpack", "use"]
