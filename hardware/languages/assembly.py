"""PTX and machine code of a compiled candidate, on request: they are read off its artifact, not kept."""

import ast
import asyncio
from collections.abc import Mapping
from pathlib import Path

from ...schemas import HardwareFacts, InputError, Pool
from ..sources.native_source import Refused, candidate_in, parsed, parts_of
from . import _objdump, artifact_cache, cuda, hot_loops, triton
from ._triton_source import has_kernels

_LEAST_CHARACTERS = 2_500
"""Of one of several disassemblies: less says nothing."""


def language_of(source: str, preferred: str) -> str:
    """Language of the candidate file ``source``: that of the native code in it, else ``preferred``.

    Told by what the file defines, not by its text: a word in a comment must not change how it is judged.
    """
    try:
        source = candidate_in(source)
        source = next(iter(parts_of(source).values()), source)
        tree = parsed(source)
    except Refused:
        return preferred
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    languages = (name for mark, name in (("CUDA_SOURCE", cuda.NAME), ("CPP_SOURCE", "cpp")) if mark in stored)
    return next(languages, triton.NAME if has_kernels(source) else preferred)


def language_in(source: str, pool: Pool, preferred: str) -> str:
    """Language that ``pool`` compiles the candidate file ``source`` in.

    What it cannot compile stays a string in the file, and running the file will tell.
    """
    language = language_of(source, preferred)
    return language if language in pool.languages else preferred


def language_taken(source: str, pool: Pool, path: Path | str) -> str:
    """Language of the candidate file ``source``, which messages call ``path``.

    Raises:
        InputError: the pool does not take it.
    """
    language = language_of(source, pool.languages[0])
    if language not in pool.languages:
        raise InputError(
            f"{path} is written in {language}, pool {pool.name} takes {', '.join(pool.languages)}: name another --pool"
        )
    return language


async def assembly(
    source: str, language: str, artifact: Path, *, pool: Pool, hardware: HardwareFacts
) -> dict[str, str]:
    """Machine code by file name, on NVIDIA's GPUs PTX as well; empty for an artifact that is no code but a recording.

    Raises:
        PoolError: the tool that prints them is not here.
    """
    texts = await machine_code(artifact)
    if language != cuda.NAME or not texts:
        return texts
    ptx = await cuda.intermediate(candidate_in(source), pool=pool, hardware=hardware)
    return {**texts, f"{artifact.stem[:8]}.ptx": ptx}


async def machine_code(artifact: Path) -> dict[str, str]:
    """What can be read off an artifact alone, by file name.

    Raises:
        PoolError: the tool that prints it is not here.
    """
    if artifact.suffix == triton.SUFFIX:
        return await asyncio.to_thread(triton.assembly, artifact)
    if artifact.suffix == cuda.SUFFIX:
        return await asyncio.to_thread(cuda.assembly, artifact)
    if artifact.suffix == artifact_cache.SUFFIX:
        return {f"{artifact.stem[:8]}.s": await _objdump.machine_code(artifact)}
    return {}


def excerpts(texts: Mapping[str, str], characters: int = hot_loops.CHARACTERS) -> str:
    """What matters most of several disassemblies; of a kernel with PTX and machine code the latter."""
    codes = {name: text for name, text in texts.items() if not name.endswith(".ptx")} or texts
    each = max(_LEAST_CHARACTERS, characters // max(1, len(codes)))
    most = characters // each
    shown = [f"== {name}\n{hot_loops.excerpt(text, each)}" for name, text in sorted(codes.items())[:most]]
    more = len(codes) - most
    return "\n\n".join([*shown, *([f"[{more} more files are left out]"] if more > 0 else [])])
