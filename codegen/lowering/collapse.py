"""Merges adjacent loop dimensions that every access walks through in one stride, so that loops are long and few."""

from dataclasses import replace

from ..ir.loops import Accumulation, Kernel, Store
from ..ir.poly import ZERO, Poly, variable
from ..ir.scalar import rewriter, walk_all


def collapse(kernel: Kernel) -> Kernel:
    """The same kernel with as few dimensions as its accesses allow."""
    dim = 0
    while dim + 1 < len(kernel.dims):
        if _mergeable(kernel, dim):
            kernel = _merge(kernel, dim)
        else:
            dim += 1
    return kernel


def _mergeable(kernel: Kernel, dim: int) -> bool:
    reduced = kernel.reduced or frozenset()
    if (dim in reduced) != (dim + 1 in reduced) or _has_position(kernel):
        return False
    outer, inner, size = f"i{dim}", f"i{dim + 1}", kernel.dims[dim + 1]
    if _names_outside_loads(kernel) & {outer, inner}:
        return False
    return all(_walks(p, outer, inner, size) for p in _offsets(kernel))


def _has_position(kernel: Kernel) -> bool:
    return any(a.op.startswith("arg") for a in kernel.accumulations.values())


def _walks(offset: Poly, outer: str, inner: str, size: Poly) -> bool:
    if not offset.names & {outer, inner}:
        return True
    a, b = offset.coefficient(outer), offset.coefficient(inner)
    return a is not None and b is not None and a == b * size


def _offsets(kernel: Kernel) -> list[Poly]:
    loads = [node.polys[0] for node in walk_all(kernel.roots()) if node.op == "load"]
    return loads + [store.offset for store in kernel.stores.values()]


def _names_outside_loads(kernel: Kernel) -> set[str]:
    """Loop variables that stand anywhere but in the offset of a load: they keep their meaning."""
    names: set[str] = set()
    for node in walk_all(kernel.roots()):
        if node.op != "load":
            for p in node.polys:
                names |= p.names
    return names


def _merge(kernel: Kernel, dim: int) -> Kernel:
    """One variable for two: the outer one is gone, the inner one runs over both, later ones move up."""
    count = len(kernel.dims)
    values = {f"i{dim}": ZERO}
    values |= {f"i{d}": variable(f"i{d - 1}") for d in range(dim + 1, count)}

    scalar = rewriter(lambda node: None, values)

    def accumulation(a: Accumulation) -> Accumulation:
        return replace(a, body=scalar(a.body))

    def store(s: Store) -> Store:
        return replace(s, offset=s.offset.substitute(values, scalar), value=scalar(s.value))

    reduced = kernel.reduced
    if reduced is not None:
        reduced = frozenset(d if d <= dim else d - 1 for d in reduced)
    dims = (*kernel.dims[:dim], kernel.dims[dim] * kernel.dims[dim + 1], *kernel.dims[dim + 2 :])
    return replace(
        kernel,
        dims=dims,
        reduced=reduced,
        accumulations={n: accumulation(a) for n, a in kernel.accumulations.items()},
        stores={n: store(s) for n, s in kernel.stores.items()},
    )
