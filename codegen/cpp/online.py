"""Online softmax: the maximum of a row and the sum of ``exp(element - maximum)`` in one pass over blocks of it.

Milakov and Gimelshein 2018, arXiv:1805.02867, section 3, with blocks that fit the first-level cache instead of single
elements: a block's maximum comes first, the sum so far is scaled if it grew, then the block is added.
"""

from collections.abc import Callable

from ..ir.loops import Accumulation
from ..lowering.online import OnlinePair
from .passes import PassWriter, combine_text
from .passes_types import Item, Range, indent
from .scope import ROW, Scope, cname
from .text import Needs, constant, ctype

BLOCK = 2048
"""Elements of a row that are handled at once."""

Lines = Callable[[Accumulation], list[str]]


def online_lines(
    pair: OnlinePair,
    size: str,
    name: str,
    scope: Scope,
    passes: PassWriter,
    needs: Needs,
    declare: Lines,
    fold: Lines,
) -> list[str]:
    """C++ that leaves the results under their names; ``name`` is the row's loop variable, ``size`` its extent."""
    maximum, total = cname(pair.maximum.name), cname(pair.total.name)
    t, dtype = ctype(pair.maximum.dtype), pair.maximum.dtype
    loop = Range(name, "first", "stop")
    greatest = passes.loops([Item(pair.maximum.body, accumulation=pair.maximum)], loop)
    summed = passes.loops([Item(pair.total.body, accumulation=pair.total)], loop)
    before, scope.lines[ROW] = scope.lines[ROW], []
    exp = needs.function("exp")
    top = combine_text(pair.maximum, maximum, f"{maximum}_so_far", needs)
    return [
        *before,
        f"{t} {maximum}_so_far = {constant(float('-inf'), dtype)}, {total}_so_far = 0;",
        f"for (int64_t first = 0; first < {size}; first += {BLOCK}) {{",
        f"  const int64_t stop = ks_min<int64_t>({size}, first + {BLOCK});",
        f"  {t} {maximum}_before = {maximum}_so_far;",
        "  {",
        *indent(indent([*declare(pair.maximum), *greatest, *fold(pair.maximum)])),
        f"    {maximum}_so_far = {top};",
        "  }",
        f"  const {t} {maximum} = {maximum}_so_far;",
        f"  if ({maximum} != {maximum}_before) {total}_so_far *= {exp}({maximum}_before - {maximum});",
        *indent([*declare(pair.total), *summed, *fold(pair.total)]),
        f"  {total}_so_far += {total};",
        "}",
        f"const {t} {maximum} = {maximum}_so_far, {total} = {total}_so_far;",
    ]
