"""C++ text of math functions that compilers vectorise, chosen by name and level.

    snippet([("exp", "fast"), ("erf", "accurate")])     # definitions, dependencies first, each once
    symbol("exp", "fast")                               # "ks_exp_fast", what generated code calls

Plain scalar inline functions, no branches: in a `#pragma omp simd` loop under `-O3 -march=native -fno-math-errno
-fno-trapping-math` GCC and clang turn them into vector code, without -ffast-math. Infinities, NaN and overflow come out
as in libm. All `ks_*` functions have a double overload; where the level is not `libm` it goes through std::.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import exact, exponential, libm, logarithm, power, sigmoidal, trigonometric
from .base import PRELUDE, Level, Snippet

__all__ = ["ERROR_ULP", "PRELUDE", "TABLE", "Level", "Snippet", "levels", "resolve", "snippet", "symbol"]

TABLE: dict[tuple[str, Level], Snippet] = {
    **libm.SNIPPETS,
    **exact.SNIPPETS,
    **exponential.SNIPPETS,
    **logarithm.SNIPPETS,
    **power.SNIPPETS,
    **sigmoidal.SNIPPETS,
    **trigonometric.SNIPPETS,
}
"""Every definition by (name, level)."""

ERROR_ULP: dict[tuple[str, Level], float] = {key: entry.ulp for key, entry in TABLE.items() if entry.note != "internal"}
"""Bound on the error of the float version in units in the last place; `TABLE[key]` says of what, and where."""

_STRICTER: dict[Level, tuple[Level, ...]] = {
    "short": ("short", "fast", "accurate", "libm"),
    "fast": ("fast", "accurate", "libm"),
    "accurate": ("accurate", "libm", "fast"),
    "libm": ("libm", "accurate", "fast"),
}


def levels(name: str) -> tuple[Level, ...]:
    """The levels at which `name` differs, coarsest first; empty for an unknown name."""
    return tuple(level for level in _STRICTER["short"] if (name, level) in ERROR_ULP)


def resolve(name: str, level: Level) -> Level:
    """The level that serves a request: the asked one, else the next stricter, else the only one there is.

    Raises KeyError for a name that no level has.
    """
    for candidate in _STRICTER[level]:
        if (name, candidate) in TABLE:
            return candidate
    raise KeyError(f"no C++ function {name!r}; known: {', '.join(sorted({function for function, _ in ERROR_ULP}))}")


def symbol(name: str, level: Level) -> str:
    """The C++ identifier that `snippet` defines for this request."""
    return f"ks_{name}_{resolve(name, level)}"


def snippet(names: Iterable[tuple[str, Level]]) -> str:
    """C++ definitions of the named functions and of all that they need, the prelude (includes, helpers) first.

    The text depends only on the set of names. Raises KeyError for a name that no level has.
    """
    ordered: dict[tuple[str, Level], Snippet] = {}
    for name, level in sorted(set(names)):
        _collect(name, resolve(name, level), ordered)
    return "\n".join([PRELUDE, *(entry.code + _double(key, entry) for key, entry in ordered.items())])


def _collect(name: str, level: Level, ordered: dict[tuple[str, Level], Snippet]) -> None:
    entry = TABLE[name, level]
    for need in entry.needs:
        _collect(*need, ordered)
    if entry.note != "internal" and level != "libm" and (name, "libm") in TABLE:
        ordered.setdefault((name, "libm"), TABLE[name, "libm"])
    ordered.setdefault((name, level), entry)


def _double(key: tuple[str, Level], entry: Snippet) -> str:
    """The double overload of a function that is written for float only."""
    name, level = key
    if level == "libm" or entry.note == "internal" or (name, "libm") not in TABLE:
        return ""
    typed, plain = ("double x, double y", "x, y") if name in libm.TWO_ARGUMENTS else ("double x", "x")
    return f"KS_INLINE double ks_{name}_{level}({typed}) {{ return ks_{name}_libm({plain}); }}\n"
