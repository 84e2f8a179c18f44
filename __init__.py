"""Kernelswarm finds faster GPU and CPU kernels with a swarm of agents over an event log.

>>> import kernelswarm
>>> best = kernelswarm.optimize(my_module, [x], pool="cpu", budget=40)  # doctest: +SKIP
>>> best.speedup, best.kernel(x)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Optimized, Step, export, fork, import_log, lineage, optimize
    from .asking import questions, sql
    from .benching import bench_kernelbench
    from .replaying import carries_over, diff, replay, resume

__all__ = [
    "Optimized",
    "Step",
    "bench_kernelbench",
    "carries_over",
    "diff",
    "export",
    "fork",
    "import_log",
    "lineage",
    "optimize",
    "questions",
    "replay",
    "resume",
    "sql",
]

_ASKING = ("questions", "sql")
_REPLAYING = ("carries_over", "diff", "replay", "resume")


def __getattr__(name: str) -> Any:
    """Import the API when it is first used: `import kernelswarm.schemas` must stay cheap."""
    if name in _ASKING:
        from . import asking

        return getattr(asking, name)
    if name == "bench_kernelbench":
        from . import benching

        return getattr(benching, name)
    if name in _REPLAYING:
        from . import replaying

        return getattr(replaying, name)
    if name in __all__:
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
