"""One way from a candidate's file to its artifact, for the command line and the agents alike."""

import ast
import asyncio
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from ...schemas import CompileReport, Diagnostic, HardwareFacts, Pool
from ..sources.native_source import Refused, candidate_in, parsed, parts_of
from ..sources.problem_files import load_candidate
from . import find_language, triton
from ._building import build
from ._triton_source import has_kernels
from .assembly import language_of
from .loaders import with_loader
from .program_runs import starts_programs

INSTALL = {
    "tilelang": "tilelang",
    "cutlass": "nvidia-cutlass-dsl",
    "helion": "helion",
    "cupy": "cupy-cuda12x",
    "numba": "numba",
    "triton": "triton",
}
"""Packages that kernels are written with, by the module that is imported: the name to install them by."""


def read_candidate(path: Path) -> str:
    """The candidate file at ``path`` as it is judged: the loader of its native code is put in if it was left out.

    Raises:
        InputError: it cannot be used (:func:`.load_candidate`).
    """
    return with_loader(load_candidate(path))


async def compile_candidate(
    source: str, language: str, *, pool: Pool, hardware: HardwareFacts, cache: Path
) -> tuple[CompileReport, dict[str, Path]]:
    """Compile a candidate, or the one in a finished file, or every one that a file dispatches to; artifacts by sha256.

    A package that it imports and that is not installed is a warning: the pool's device may be elsewhere.

    Raises:
        PoolError: no such language, or no toolchain for it here.
    """
    # Files of a megabyte take a while to parse, and whoever asks has an event loop to keep going.
    candidate = await asyncio.to_thread(candidate_in, source)
    if parts := await asyncio.to_thread(parts_of, candidate):
        return await _compile_parts(parts, language, pool=pool, hardware=hardware, cache=cache)
    report, paths = await find_language(language).compile(candidate, pool=pool, hardware=hardware, cache=cache)
    if report.ok and await asyncio.to_thread(_has_triton_as_well, candidate, language, pool):
        also, more = await triton.compile(candidate, pool=pool, hardware=hardware, cache=cache)
        report, paths = (_joined([report, also]), paths | more) if also.ok else (also, more)
    if report.ok and await asyncio.to_thread(starts_programs, candidate):
        built, more = await build(candidate, language, pool=pool, hardware=hardware, cache=cache)
        # Of a file without native code of its own there is nothing else to report.
        report, paths = (_joined([report, built]), paths | more) if built.ok and report.compiler else (built, more)
    missing = await asyncio.to_thread(missing_packages, source)
    return replace(report, diagnostics=(*report.diagnostics, *missing)), paths


def _has_triton_as_well(source: str, language: str, pool: Pool) -> bool:
    """Whether there are Triton kernels beside native code: CUDA C++ for one half of an operator, say."""
    return language != triton.NAME and triton.NAME in pool.languages and has_kernels(source)


async def _compile_parts(
    parts: Mapping[str, str], language: str, *, pool: Pool, hardware: HardwareFacts, cache: Path
) -> tuple[CompileReport, dict[str, Path]]:
    """One report of all, that of the first part that does not compile if there is one."""
    reports: list[CompileReport] = []
    artifacts: dict[str, Path] = {}
    for text in parts.values():
        # A part may be a finished file, or dispatch itself.
        report, paths = await compile_candidate(
            text, language_of(text, language), pool=pool, hardware=hardware, cache=cache
        )
        if not report.ok:
            return report, {}
        reports.append(report)
        artifacts |= paths
    return _joined(reports), artifacts


def _joined(reports: list[CompileReport]) -> CompileReport:
    artifacts = {artifact.sha256: artifact for report in reports for artifact in report.artifacts}
    late = any(report.is_late for report in reports)
    kept = [artifact for artifact in artifacts.values() if not (late and artifact.name.endswith(triton.SUFFIX))]
    return replace(
        # What a process may do goes by its language: Triton's may have to compile at the first call.
        next((report for report in reports if report.language == triton.NAME), reports[0]),
        artifacts=tuple(kept),
        diagnostics=tuple(diagnostic for report in reports for diagnostic in report.diagnostics),
        seconds=sum(report.seconds for report in reports),
        cached=all(report.cached for report in reports),
        kernels=tuple(kernel for report in reports for kernel in report.kernels),
    )


def missing_packages(source: str) -> tuple[Diagnostic, ...]:
    """A warning for each package that kernels are written with, is imported by ``source``, and is not installed."""
    try:
        tree = parsed(candidate_in(source))
    except Refused:
        return ()
    lines = {name: line for name, line in reversed([*_imported(tree)]) if name in INSTALL}
    return tuple(
        Diagnostic(severity="warning", message=_sentence(name), line=line)
        for name, line in lines.items()
        if importlib.util.find_spec(name) is None
    )


def _sentence(name: str) -> str:
    return f"it imports {name}, which is not installed here: pip install {INSTALL[name]} on the machine that judges it"


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Top-level packages that the file imports anywhere, each with a line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0], node.lineno
