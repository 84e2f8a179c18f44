"""PTX and machine code of a compiled candidate, on request: they are read off its artifact, not kept."""

from pathlib import Path

from ..schemas import HardwareFacts, Pool
from .languages import cuda, find_language, triton

WITH_ASSEMBLY = (triton.NAME, cuda.NAME)


def language_of(source: str, preferred: str) -> str:
    """Language of the candidate file ``source``: that of the native code in it, else ``preferred``."""
    marks = {"CUDA_SOURCE": cuda.NAME, "CPP_SOURCE": "cpp", "@triton.jit": triton.NAME}
    return next((name for mark, name in marks.items() if mark in source), preferred)


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
            f"{stem}.ptx": await cuda.intermediate(source, pool=pool, hardware=hardware),
        }
    find_language(language)
    return {}
