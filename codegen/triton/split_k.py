"""Split-K: parts of a product's sum as programs of their own, and the kernels that add them up in a fixed order."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..ir.build import apply, load
from ..ir.loops import Buffer, Kernel, Store
from ..ir.poly import ONE, Poly, poly, variable
from ..ir.scalar import Scalar, rewrite
from ..lowering.views import linear, shape_of
from .prepare import Sizes
from .products import Product, Tiles, tiles_of
from .scope import pname
from .tunables import GpuSettings

MULTIPROCESSORS = 132
"""Of an H100 or H200."""
_FEWEST_STEPS = 8
"""Tiles of the summed dimension under which a product is not split by itself."""
_MOST_PARTS = 16


@dataclass(frozen=True)
class Split:
    """A product whose sum is computed in parts."""

    one: Product
    """Without a user: every part is stored as it is."""
    tiles: Tiles
    parts: int
    scratch: Buffer
    """``(parts, batch * m, n)`` in fp32."""
    rest: Kernel
    """Adds the parts up, and does what follows the product."""


def parts_of(one: Product, sizes: Sizes, settings: GpuSettings) -> int:
    """Parts that a product's sum is computed in; 1: it is not split."""
    tiles = tiles_of(replace(one, user=None), sizes, settings)
    steps = -(-sizes.of(one.k) // tiles.k)
    if settings.split_k:
        return min(settings.split_k, steps)
    programs = -(-sizes.of(one.m) // tiles.m) * -(-sizes.of(one.n) // tiles.n) * sizes.of(one.batch)
    rows = one.user is not None and one.user.reduced is not None
    if rows or steps < _FEWEST_STEPS or 2 * programs > MULTIPROCESSORS:
        return 1
    return max(1, min(MULTIPROCESSORS // programs, steps // (_FEWEST_STEPS // 2), _MOST_PARTS))


def split_product(one: Product, parts: int, sizes: Sizes, settings: GpuSettings) -> Split:
    """The parts of a product and the kernel behind them."""
    alone = replace(one, user=None)
    rows = one.batch * one.m
    name = f"{one.node.name}_parts"
    scratch = Buffer(name, "float32", (poly(parts), rows, one.n))
    total = rows * one.n

    def added(offset: Poly) -> Scalar:
        terms = [load(name, "float32", offset + total * part) for part in range(parts)]
        found = terms[0]
        for term in terms[1:]:
            found = apply("add", "float32", found, term)
        return found

    def change(value: Scalar) -> Scalar | None:
        is_product = value.op == "load" and value.data[0] == one.node.name
        return added(value.polys[0]) if is_product else None

    rest = _stored(one, added) if one.user is None else _changed(one.user, change)
    return Split(alone, tiles_of(alone, sizes, settings), parts, scratch, rest)


def _changed(user: Kernel, change: Callable[[Scalar], Scalar | None]) -> Kernel:
    return replace(
        user,
        accumulations={n: replace(a, body=rewrite(a.body, change)) for n, a in user.accumulations.items()},
        stores={n: replace(s, value=rewrite(s.value, change)) for n, s in user.stores.items()},
    )


def _stored(one: Product, added: Callable[[Poly], Scalar]) -> Kernel:
    """The sum of the parts as the product's result."""
    dims = tuple(size for size in (one.batch * one.m, one.n) if size != ONE)
    offset = linear([variable(f"i{d}") for d in range(len(dims))], dims)
    buffer = Buffer(one.node.name, one.node.values[0].dtype, shape_of(one.node))
    store = Store(buffer, offset, added(offset), "element")
    return Kernel(pname(f"sum_{one.node.name}"), 0, dims, None, {}, {one.node.name: store}, [one.node.name])
