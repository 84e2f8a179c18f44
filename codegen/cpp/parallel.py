"""C++ loops over the points of a kernel, and how OpenMP distributes them among threads."""

from collections.abc import Iterable

from ..ir.tunables import Settings
from .passes_types import indent

CHECKED = "reduction(|:bad)"
"""The clause of a loop in which an index can be out of range: what any thread finds is kept."""


def nest(loops: Iterable[tuple[str, str]], body: list[str]) -> list[str]:
    """The body in a loop from 0 for each variable and size, the last innermost."""
    for name, size in reversed(list(loops)):
        body = [f"for (int64_t {name} = 0; {name} < {size}; ++{name}) {{", *indent(body), "}"]
    return body


def tiled(size: str, tile: int, body: list[str]) -> list[str]:
    """The body in a loop over tiles of a dimension: ``left`` is where one starts, ``width`` its size."""
    return [
        f"for (int64_t left = 0; left < {size}; left += {tile}) {{",
        f"  const int64_t width = ks_min<int64_t>({tile}, {size} - left);",
        *indent(body),
        "}",
    ]


def checking(lines: Iterable[str]) -> list[str]:
    """The clause that the lines need where they check indices."""
    return [CHECKED] if any("ks_wrap" in line for line in lines) else []


def team(work: str, settings: Settings, lines: Iterable[str]) -> str:
    """Clauses that say who works on the lines: one thread where there is little work."""
    threads = [f"num_threads({settings.threads})"] if settings.threads else []
    return " ".join([f"if ({work} >= {settings.serial_below})", *threads, *checking(lines)])


def collapsed(loops: int) -> str:
    """The clause, with a blank before it, that makes one loop of so many."""
    return f" collapse({loops})" if loops > 1 else ""


def shares(loops: int, settings: Settings) -> str:
    """Clauses, with a blank before them, that share the points of so many loops out to the threads."""
    return f"{collapsed(loops)} schedule({'dynamic' if settings.dynamic else 'static'})"


def simd(lines: Iterable[str]) -> str:
    """The line before a loop over the lines that makes vectors of it."""
    return " ".join(["#pragma omp simd", *checking(lines)])
