"""What a language is: a module that turns a candidate's source into loadable artifacts."""

from pathlib import Path
from typing import Protocol

from ...schemas import CompileReport, HardwareFacts, Pool


class Language(Protocol):
    """The contract of a language module (a file in this folder, named in the registry)."""

    NAME: str
    """As pools list it: ``cpp``."""

    async def compile(
        self, source: str, *, pool: Pool, hardware: HardwareFacts, cache: Path
    ) -> tuple[CompileReport, dict[str, Path]]:
        """Compile the candidate file ``source`` into ``cache``.

        Returns:
            The report, and the path of every artifact by its sha256. What is wrong with the candidate is in the
            report's diagnostics; a candidate without native code is ok and has no artifact.

        Raises:
            PoolError: this machine has no toolchain for the language.
            InputError: the cache cannot be written.
        """
        ...
