"""C++ text for bucketize and searchsorted: positions in a sorted table, exactly as PyTorch gives them.

    snippet(["grid"])                                            # definitions, what they need first
    call("grid", right=False, index="g", table="t", length="n", queries="x", results="y", count="m")

`right=False` finds the first position i with table[i] >= x, `right=True` the first with table[i] > x; NaN as a query
gives the table's length, as does a query beyond the end; an empty table gives 0. Keys are float, double or any integer
type, results int32_t or int64_t; queries and table have one type. Rows of a batched table are a pointer and a length
each. A table must be sorted and hold no NaN. `ks_lookup_one<RIGHT>(table, n, x)` is the scalar search.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import grid, search
from .base import PRELUDE, Algorithm

__all__ = ["ALGORITHMS", "PRELUDE", "Algorithm", "call", "index_statement", "snippet"]

ALGORITHMS: dict[str, Algorithm] = {**search.ALGORITHMS, **grid.ALGORITHMS}
"""Every algorithm by name."""


def snippet(names: Iterable[str]) -> str:
    """C++ definitions of the named algorithms and of `ks_lookup_one`. Raises KeyError for an unknown name."""
    ordered = {"binary": ALGORITHMS["binary"]}
    for name in sorted(set(names)):
        ordered.update({need: ALGORITHMS[need] for need in ALGORITHMS[name].needs})
        ordered[name] = ALGORITHMS[name]
    return "\n".join([PRELUDE, *(algorithm.code for algorithm in ordered.values())])


def index_statement(name: str, *, key: str, index: str, table: str, length: str) -> str:
    """C++ that builds the index named `index`, for before the parallel region; empty where none is needed.

    `key` is the C++ type of the keys, `table` a `const key*`, `length` an integer expression.
    """
    return f"const ks_index_{name}<{key}> {index}({table}, {length});" if ALGORITHMS[name].index else ""


def call(
    name: str, *, right: bool, table: str, length: str, queries: str, results: str, count: str, index: str = ""
) -> str:
    """C++ statement that looks `count` queries up; any count is allowed, thousands at a time are best."""
    source = index if ALGORITHMS[name].index else f"{table}, {length}"
    return f"ks_lookup_{name}<{str(right).lower()}>({source}, {queries}, {results}, {count});"
