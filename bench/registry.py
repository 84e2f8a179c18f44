"""The benchmarks that there are. A new one is an adapter beside this file, and a line here."""

from ..schemas import InputError
from .kernelbench import KernelBench
from .robust_kbench import RobustKBench
from .runs import Benchmark
from .sol_execbench import SolExecBench

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark for benchmark in (KernelBench(), SolExecBench(), RobustKBench())
}
"""By name, in the order of the help."""


def benchmark_named(name: str) -> Benchmark:
    """The benchmark of that name.

    Raises:
        InputError: there is none.
    """
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark is called {name!r}: choose one of {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]
