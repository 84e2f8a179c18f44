"""Pools."""

from ...hardware.pools.pool_files import load_pools
from ...schemas import KernelswarmError
from ...sessions.home import kernelswarm_home


def pool_names(incomplete: str) -> list[str]:
    """Pools whose name begins with ``incomplete``."""
    try:
        return [name for name in load_pools(kernelswarm_home()) if name.startswith(incomplete)]
    except KernelswarmError:
        return []
