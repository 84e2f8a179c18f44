"""Whether more is to be run on this machine than it has cores for: processes start late then."""

import os

MOST = 4.0
"""However much is to be run, a start may take at most so many times as long."""


def slowdown() -> float:
    """How many times as long a process may take to start here: as many as programs want each core, at most
    :data:`MOST`."""
    load, cores = _load()
    return min(MOST, max(1.0, load / cores))


def load_text() -> str:
    """That others use this machine as well, as the end of a clause; empty where there are cores enough."""
    load, cores = _load()
    return f", with {load:.0f} programs at work on {cores} cores" if load >= 1.5 * cores else ""


def _load() -> tuple[float, int]:
    return os.getloadavg()[0], os.cpu_count() or 1
