"""Kinds of hardware: one file each, named here."""

from pathlib import Path

from ...schemas import HardwareFacts, Pool
from . import cpu
from .base import Platform

PLATFORMS: dict[str, Platform] = {cpu.NAME: cpu}
"""Every platform by the name that pool files use."""


def detect(pool: Pool, home: Path, *, refresh: bool = False) -> HardwareFacts:
    """What this machine is to ``pool``: found on every call, measured once (about a second) and kept in ``home``.

    Blocking. Measuring wants a quiet machine: hold the exclusive lease if anything else may run.

    Raises:
        PoolError: this machine cannot serve the pool; the message says what to install.
        InputError: ``home`` cannot be written.
    """
    return PLATFORMS[pool.platform].detect(pool, home, refresh=refresh)


__all__ = ["PLATFORMS", "Platform", "detect"]
