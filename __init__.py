"""Kernelswarm finds faster GPU and CPU kernels with a swarm of agents over an event log.

>>> import kernelswarm
>>> result = kernelswarm.optimize(my_module, [x], pool="cpu", budget=40)  # doctest: +SKIP
>>> print(result)  # doctest: +SKIP
>>> result.kernel(x)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from .lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .api.benchmarks import run_benchmark
    from .api.evaluating import apply, evaluate
    from .api.optimized import Optimized
    from .api.questions import questions, sql
    from .api.replays import diff, re_evaluate, replay, resume
    from .api.searching import Step, export, fork, import_log, lineage, optimize
    from .api.timing import time
    from .schemas.errors import (
        BusError,
        HarnessError,
        InputError,
        KernelswarmError,
        LogCorrupted,
        PoolError,
        ProblemError,
        ReplayDivergence,
        StoreError,
    )
else:
    # `import kernelswarm.schemas` must stay cheap.
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "BusError",
    "HarnessError",
    "InputError",
    "KernelswarmError",
    "LogCorrupted",
    "Optimized",
    "PoolError",
    "ProblemError",
    "ReplayDivergence",
    "Step",
    "StoreError",
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
