"""PTX and machine code of a compiled candidate, on request: they are read off its artifact, not kept."""

import ast
from pathlib import Path

from ...schemas import HardwareFacts, InputError, Pool
from ..sources.native_source import Refused, candidate_in, parsed, parts_of
from . import cuda, find_language, triton
from ._triton_source import has_kernels

WITH_ASSEMBLY = (triton.NAME, cuda.NAME)


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


def language_taken(source: str, pool: Pool, path: Path) -> str:
    """Language of the candidate file ``source``, read from ``path``.

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
    """PTX and SASS by file name; empty for a language that has none.

    Raises:
        PoolError: the tool that prints them is not here.
    """
    if language == triton.NAME:
        return triton.assembly(artifact)
    if language == cuda.NAME:
        stem = artifact.stem[:8]
        return {
            **cuda.assembly(artifact),
            f"{stem}.ptx": await cuda.intermediate(candidate_in(source), pool=pool, hardware=hardware),
        }
    find_language(language)
    return {}
