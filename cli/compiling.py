"""A candidate compiled for a pool's hardware, which need not be here: for ``kernelswarm compile`` and its MCP tool."""

from pathlib import Path

from ..hardware.languages.assembly import assembly, language_taken
from ..hardware.languages.compiling import compile_candidate
from ..hardware.platforms import known
from ..hardware.pools.pool_files import find_pool
from ..schemas import CompileReport


async def compiled(
    source: str, pool_name: str, home: Path, *, origin: str, with_assembly: bool = False
) -> tuple[CompileReport, dict[str, str]]:
    """What the toolchain here makes of ``source``, and on request its machine code by file name.

    ``origin`` names the file in messages.

    Raises:
        InputError: there is no such pool, or it does not take the file's language.
        PoolError: there is no toolchain for it here.
    """
    pool = find_pool(pool_name, home)
    language = language_taken(source, pool, origin)
    hardware = known(pool, home)
    report, paths = await compile_candidate(source, language, pool=pool, hardware=hardware, cache=home / "artifacts")
    texts: dict[str, str] = {}
    for path in paths.values() if with_assembly else ():
        texts |= await assembly(source, language, path, pool=pool, hardware=hardware)
    return report, texts
