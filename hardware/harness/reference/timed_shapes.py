"""The shapes of a function problem, and which of them are timed."""

import math
import types
from typing import Any

from ..calls.answering import Refused

MOST_TIMED = 8
"""Shapes that a problem may have timed: each has baselines of its own, compiled for it and kept warm."""


def shapes_of(problem: str, module: types.ModuleType) -> dict[str, dict[str, Any]]:
    """The keyword arguments of ``inputs`` by shape, the timed shapes first; ``problem`` names the file.

    Raises:
        Refused: ``shapes`` is missing, or is not that.
    """
    shapes = getattr(module, "shapes", None)
    if not isinstance(shapes, dict) or not shapes:
        raise Refused(f'{problem}.py has no `shapes`; add e.g. shapes = {{"main": dict(rows=2048, cols=4096)}}')
    for name, sizes in shapes.items():
        if not isinstance(name, str) or not isinstance(sizes, dict):
            raise Refused(f"{problem}.py: shapes[{name!r}] must be a dictionary of keyword arguments of inputs()")
    timed = weights_of(problem, module, shapes)
    return {name: shapes[name] for name in dict.fromkeys((*timed, *shapes))}


def weights_of(problem: str, module: types.ModuleType, shapes: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The weights of the timed shapes, where the file names them; else none.

    Raises:
        Refused: ``timed`` is no dictionary of weights of ``shapes``.
    """
    timed = getattr(module, "timed", None)
    if timed is None:
        return {}
    example = f"timed = {{{', '.join(f'{name!r}: 1' for name in list(shapes)[:2])}}}"
    if not isinstance(timed, dict) or not timed:
        raise Refused(f"{problem}.py: `timed` is a {type(timed).__name__}; give weights by shape, e.g. {example}")
    if len(timed) > MOST_TIMED:
        raise Refused(f"{problem}.py has {len(timed)} timed shapes; {MOST_TIMED} are the most, others can be checked")
    for name, weight in timed.items():
        if name not in shapes:
            raise Refused(f"{problem}.py: `timed` names {name!r}, which is none of its shapes: {', '.join(shapes)}")
        if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 < weight < math.inf:
            raise Refused(f"{problem}.py: the weight of timed shape {name!r} is {weight!r}; give a number above 0")
    return {name: float(weight) for name, weight in timed.items()}
