"""Split-K: parts of a product's sum as programs of their own, and the kernels that add them up in a fixed order."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..ir.build import apply, load
from ..ir.loops import Buffer, Kernel
from ..ir.poly import Poly, poly
from ..ir.scalar import Scalar
from ..lowering.views import squeezed
from .epilogue import replacing, stored
from .prepare import Sizes
from .products import Product, Tiles, tiles_of
from .scope import pname
from .tunables import GpuSettings

_FEWEST_STEPS = 8
"""Tiles of the summed dimension under which a product is not split by itself."""
_MOST_PARTS = 32


@dataclass(frozen=True)
class Split:
    """A product whose sum is computed in parts."""

    matmul: Product
    """Without a user: every part is stored as it is."""
    tiles: Tiles
    parts: int
    scratch: Buffer
    """``(parts, batch * m, n)`` in fp32."""
    rest: Kernel
    """Adds the parts up, and does what follows the product."""


def parts_of(matmul: Product, sizes: Sizes, settings: GpuSettings) -> int:
    """Parts that a product's sum is computed in; 1: it is not split."""
    tiles = tiles_of(replace(matmul, user=None), sizes, settings)
    steps = -(-sizes.of(matmul.k) // tiles.k)
    if settings.split_k:
        return min(settings.split_k, steps)
    programs = -(-sizes.of(matmul.m) // tiles.m) * -(-sizes.of(matmul.n) // tiles.n) * sizes.of(matmul.batch)
    rows = matmul.user is not None and matmul.user.reduced is not None
    if rows or steps < _FEWEST_STEPS or 2 * programs > settings.multiprocessors:
        return 1
    return max(1, min(settings.multiprocessors // programs, steps // (_FEWEST_STEPS // 2), _MOST_PARTS))


def split_product(matmul: Product, parts: int, sizes: Sizes, settings: GpuSettings) -> Split:
    """The parts of a product and the kernel behind them."""
    alone = replace(matmul, user=None)
    rows = matmul.batch * matmul.m
    name = f"{matmul.node.name}_parts"
    scratch = Buffer(name, "float32", (poly(parts), rows, matmul.n))
    total = rows * matmul.n

    def added(offset: Poly) -> Scalar:
        terms = [load(name, "float32", offset + total * part) for part in range(parts)]
        result = terms[0]
        for term in terms[1:]:
            result = apply("add", "float32", result, term)
        return result

    user = matmul.user
    rest = _stored(matmul, added) if user is None else user.rewritten(replacing(matmul.node, added))
    return Split(alone, tiles_of(alone, sizes, settings), parts, scratch, rest)


def _stored(matmul: Product, added: Callable[[Poly], Scalar]) -> Kernel:
    """The sum of the parts as the product's result."""
    dims = squeezed((matmul.batch * matmul.m, matmul.n))
    store = stored(matmul.node, dims, added)
    return Kernel(pname(f"sum_{matmul.node.name}"), 0, dims, None, {}, {matmul.node.name: store}, [matmul.node.name])
