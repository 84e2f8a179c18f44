"""What a platform is: a module that says what machine a pool runs on."""

from pathlib import Path
from typing import Protocol

from ...schemas import HardwareFacts, Pool


class Platform(Protocol):
    """The contract of a platform module (a file in this folder, named in the registry)."""

    NAME: str
    """As pool files say it: ``cpu``."""

    def detect(self, pool: Pool, home: Path, *, refresh: bool = False) -> HardwareFacts:
        """What this machine is to ``pool``. What had to be measured is kept under ``home`` until the machine changes.

        Raises:
            PoolError: this machine cannot serve the pool; the message says what to install.
            InputError: ``home`` cannot be written.
        """
        ...
