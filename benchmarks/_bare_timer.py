"""The timer of an author who has nothing else: one seed, a hundredth of tolerance, the mean of calls beside eager's.

    python benchmarks/_bare_timer.py PROBLEM.py KERNEL.py

Prints ``is_right``, ``eager_ms`` and ``kernel_ms`` as JSON. It believes what :mod:`kernelswarm`'s judge does not.
"""

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

CALLS = 50


def loaded(path: str, name: str) -> ModuleType:
    """The file, imported."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mean_ms(function: Callable[..., Any], inputs: list[Any]) -> float:
    """Of calls in a row, after five that do not count."""
    for _ in range(5):
        function(*inputs)
    began = time.perf_counter()
    for _ in range(CALLS):
        function(*inputs)
    return (time.perf_counter() - began) / CALLS * 1000


def main() -> None:
    """One comparison and two times."""
    problem, candidate = loaded(sys.argv[1], "problem"), loaded(sys.argv[2], "candidate")
    inputs = problem.inputs(torch.Generator().manual_seed(0), **next(iter(problem.shapes.values())))
    with torch.no_grad():
        wanted, given = problem.reference(*inputs), candidate.kernel(*inputs)
        pairs = zip(wanted, given, strict=True) if isinstance(wanted, tuple) else [(wanted, given)]
        is_right = all(torch.allclose(one, other, rtol=1e-2, atol=1e-2) for one, other in pairs)
        eager_ms, kernel_ms = mean_ms(problem.reference, inputs), mean_ms(candidate.kernel, inputs)
    print(json.dumps({"is_right": is_right, "eager_ms": eager_ms, "kernel_ms": kernel_ms}))


if __name__ == "__main__":
    main()
