"""Kernelswarm finds faster GPU and CPU kernels with a swarm of agents over an event log.

>>> import kernelswarm
>>> best = kernelswarm.optimize(my_module, [x], pool="cpu", budget=40)  # doctest: +SKIP
>>> best.speedup, best.kernel(x)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Optimized, optimize

__all__ = ["Optimized", "optimize"]


def __getattr__(name: str) -> Any:
    """Import the API when it is first used: `import kernelswarm.schemas` must stay cheap."""
    if name in __all__:
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
