"""C++ with OpenMP behind a plain C ABI, compiled with the pool's ``g++`` or ``clang++``.

A candidate carries its native code in the literals ``CPP_SOURCE`` and ``CPP_FLAGS`` and loads it with :data:`LOADER`.
"""

import asyncio
import errno
import re
from pathlib import Path

from ...schemas import CompileReport, HardwareFacts, Pool
from ..machine.compilers import Compiler, find_compiler
from ..processes.limited_command import Finished, Limits, run_limited
from ..processes.linux import LESS_URGENT
from ..sources.native_source import NativeSource, Refused, check_flags, native_source
from ._cpp_loader import BASE_FLAGS, LOADER
from .artifact_cache import ArtifactCache
from .diagnostics import read_diagnostics
from .reports import has_errors, key_of, report_of, unexplained

NAME = "cpp"
SOURCE_FILE = "kernel.cpp"
LARGEST_ARTIFACT = 256 << 20
"""Bytes: a static array with initialisers could otherwise fill the disk."""
LEAST_COMPILER_MEMORY, MOST_COMPILER_MEMORY = 1 << 30, 4 << 30
"""Bytes: a pool's limit is meant for candidates, and may be less than a compiler needs."""

ALLOWED_FLAGS = re.compile(
    r"-O[0-3sg]?|-g[0-3]?|-w|-pthread|-pipe"
    r"|-std=(c|gnu)\+\+(11|14|17|20|23|2a|2b)"
    r"|-[DU][A-Za-z_]\w*(=[\w.+-]*)?"
    r"|-l(m|dl|rt|pthread|gomp|omp|atomic|mvec)"
    r"|-W(no-)?[a-z][a-z0-9+-]*(=\d+)?"
    r"|-m(no-)?(?!daz|llvm)[a-z0-9][a-z0-9._-]*(=[A-Za-z0-9._+-]+)?"
    r"|--param=[a-z0-9-]+=\d+"
    r"|-f(no-)?("
    r"math-errno|trapping-math|finite-math-only|signed-zeros|associative-math|reciprocal-math|rounding-math"
    r"|signaling-nans|fp-contract=(fast|on|off)|excess-precision=(fast|standard)|single-precision-constant"
    r"|cx-limited-range|cx-fortran-rules|omit-frame-pointer|unroll(-all)?-loops|peel-loops|split-loops|unswitch-loops"
    r"|loop-[a-z-]+|tree-[a-z-]+|ipa-[a-z-]+|inline(-[a-z-]+)?(=\d+)?|(slp-)?vectorize|(vect|simd)-cost-model=\w+"
    r"|prefetch-loop-arrays|strict-aliasing|strict-overflow|wrapv|builtin|gcse[a-z-]*|sched-[a-z0-9-]+"
    r"|schedule-insns2?|modulo-sched[a-z-]*|rename-registers|variable-expansion-in-unroller|split-paths|web"
    r"|align-(functions|loops|jumps|labels)(=\d+(:\d+)*)?|reorder-[a-z-]+|openmp(-simd)?|exceptions|rtti|plt|PIC|pic"
    r"|semantic-interposition|visibility=(hidden|default)|stack-protector|merge-constants|threadsafe-statics"
    r")"
)
"""What ``CPP_FLAGS`` may hold. An allow-list: some other flags run programs, read files or write them."""

_FLUSHES = (
    "it makes the whole process flush denormals once the library is loaded (crtfastmath.o); name what you need: "
    "-fassociative-math -fno-signed-zeros -freciprocal-math -ffinite-math-only"
)
REFUSED_WITH_REASON = dict.fromkeys(("-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-mdaz-ftz"), _FLUSHES)


def artifact_key(text: str, flags: tuple[str, ...]) -> str:
    """Name of the artifact without ``.so``: sha256 of the canonical JSON of language, source and flags."""
    return key_of(NAME, text, flags)


async def compile(
    source: str, *, pool: Pool, hardware: HardwareFacts, cache: Path
) -> tuple[CompileReport, dict[str, Path]]:
    """Compile the candidate file ``source``; its artifact is ``cache/<artifact_key>.so``.

    Safe to call at once from several tasks and processes with the same cache; cancelling kills the compiler.

    Returns:
        The report, and the artifact's path by its sha256 (empty for a candidate without ``CPP_SOURCE``).

    Raises:
        PoolError: no compiler is installed.
        InputError: the cache cannot be written, or its disk is full.
    """
    try:
        native = native_source(source, "CPP")
        if native is not None:
            check_flags(native.flags, ALLOWED_FLAGS, REFUSED_WITH_REASON)
    except Refused as refused:
        return CompileReport(ok=False, language=NAME, compiler="", diagnostics=(refused.diagnostic,)), {}
    if native is None:
        return CompileReport(ok=True, language=NAME, compiler=""), {}
    compiler = await asyncio.to_thread(find_compiler, pool)

    async def build(folder: Path) -> tuple[CompileReport, str]:
        source_file = folder / SOURCE_FILE
        await asyncio.to_thread(source_file.write_text, native.text, encoding="utf-8", errors="replace")
        finished = await run_limited(
            [compiler.path, *BASE_FLAGS, *native.flags, "-o", "kernel.so", SOURCE_FILE],
            cwd=folder,
            limits=_limits(pool, hardware),
            readable=compiler.files,
        )
        return _report(finished, compiler, native, pool), "kernel.so"

    machine = [str(compiler), compiler.path, hardware.device, *hardware.isa]
    return await ArtifactCache(cache).built(artifact_key(native.text, native.flags), machine, build)


def _limits(pool: Pool, hardware: HardwareFacts) -> Limits:
    memory = pool.candidate_memory_bytes or hardware.memory_bytes // 2
    memory = max(LEAST_COMPILER_MEMORY, min(memory, MOST_COMPILER_MEMORY))
    # Whoever is timed or compiles the baselines is waited for by everybody.
    return Limits(pool.candidate_seconds, memory, LARGEST_ARTIFACT, LESS_URGENT)


def _report(finished: Finished, compiler: Compiler, native: NativeSource, pool: Pool) -> CompileReport:
    if "No space left on device" in finished.output:
        # Not the candidate's fault, and it would be every candidate's.
        raise OSError(errno.ENOSPC, "No space left on device")
    diagnostics = read_diagnostics(finished.output, SOURCE_FILE)
    is_broken = finished.timed_out or finished.returncode != 0
    if finished.timed_out or (is_broken and not has_errors(diagnostics)):
        diagnostics = (unexplained(finished, pool), *diagnostics)
    return report_of(
        finished,
        ok=not is_broken,
        language=NAME,
        compiler=str(compiler),
        flags=BASE_FLAGS + native.flags,
        diagnostics=diagnostics,
    )


__all__ = ["ALLOWED_FLAGS", "BASE_FLAGS", "LOADER", "NAME", "artifact_key", "compile"]
