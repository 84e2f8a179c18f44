"""Kernelswarm finds faster GPU and CPU kernels with a swarm of agents over an event log.

>>> import kernelswarm
>>> result = kernelswarm.optimize(my_module, [x], pool="cpu", budget=40)  # doctest: +SKIP
>>> print(result)  # doctest: +SKIP
>>> result.kernel(x)  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.benchmarks import run_benchmark
    from .api.evaluating import apply, evaluate
    from .api.optimized import Optimized
    from .api.questions import questions, sql
    from .api.replays import diff, re_evaluate, replay, resume
    from .api.searching import Step, export, fork, import_log, lineage, optimize
    from .api.timing import time

__all__ = [
    "Optimized",
    "Step",
    "apply",
    "diff",
    "evaluate",
    "export",
    "fork",
    "import_log",
    "lineage",
    "optimize",
    "questions",
    "re_evaluate",
    "replay",
    "resume",
    "run_benchmark",
    "sql",
    "time",
]

_MODULES = {
    "api.evaluating": ("apply", "evaluate"),
    "api.optimized": ("Optimized",),
    "api.searching": ("Step", "export", "fork", "import_log", "lineage", "optimize"),
    "api.timing": ("time",),
    "api.questions": ("questions", "sql"),
    "api.benchmarks": ("run_benchmark",),
    "api.replays": ("diff", "re_evaluate", "replay", "resume"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the API when it is first used: `import kernelswarm.schemas` must stay cheap."""
    if name not in _PLACES:
        # With its object Python adds what was meant.
        module = import_module(__name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=module)
    return getattr(import_module(f".{_PLACES[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*__all__]
