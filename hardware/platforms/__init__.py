"""Kinds of hardware: one file each, named here."""

from pathlib import Path

from ...schemas import HardwareFacts, Pool, PoolError
from ..machine.cpu_facts import instruction_sets
from ..machine.nvml import find_devices
from . import cpu, nvidia
from .base import Platform

PLATFORMS: dict[str, Platform] = {cpu.NAME: cpu, nvidia.NAME: nvidia}
"""Every platform by the name that pool files use."""


def detect(pool: Pool, home: Path, *, refresh: bool = False) -> HardwareFacts:
    """What this machine is to ``pool``: found on every call, measured once (seconds) and kept in ``home``.

    Blocking. Measuring wants a quiet machine: hold the exclusive lease if anything else may run.

    Raises:
        PoolError: this machine cannot serve the pool; the message says what to install.
        InputError: ``home`` cannot be written.
    """
    return PLATFORMS[pool.platform].detect(pool, home, refresh=refresh)


def known(pool: Pool, home: Path) -> HardwareFacts:
    """What a machine has to know of ``pool`` to compile for it, or to serve roles that need no hardware.

    A pool that names its target needs none of its accelerators here; any other is detected.

    Raises:
        PoolError, InputError: as :func:`detect`.
    """
    if pool.platform == nvidia.NAME and pool.target:
        return nvidia.for_compiling(pool)
    return detect(pool, home)


def chips(pool: Pool) -> tuple[str, ...]:
    """What the pool's hardware is, in the words of documents and compilers, without measuring it: its target, or the
    instruction sets of this machine's processor; empty for accelerators that are neither named nor here."""
    if pool.target:
        return (pool.target,)
    if pool.platform == cpu.NAME:
        return instruction_sets()
    try:
        return tuple(sorted({device.target for device in find_devices().accelerators}))
    except PoolError:
        return ()


__all__ = ["PLATFORMS", "Platform", "chips", "detect", "known"]
