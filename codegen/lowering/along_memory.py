"""Reorders the dimensions of row kernels whose rows do not run along memory, so that the contiguous one comes last.

A norm over a view reads channels that lie last as ``i // channels`` and ``i % channels`` of one dimension: that is two,
of which the second lies along memory.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..ir.loops import Kernel
from ..ir.poly import ONE, ZERO, Atom, Poly, exact_quotient, poly, variable
from ..ir.scalar import Scalar, rewrite, walk_all


def along_memory(kernel: Kernel) -> Kernel:
    """The same kernel with the dimension last along which it reads memory, if all that it reads agrees on one."""
    if not kernel.outer or not kernel.inner or any(a.op.startswith("arg") for a in kernel.accumulations.values()):
        return kernel
    if any(p.coefficient(f"i{len(kernel.dims) - 1}") == ONE for p in _offsets(kernel)):
        return kernel
    apart = _taken_apart(kernel)
    along = _along(apart)
    return kernel if along is None else _with_last(apart, along)


def _offsets(kernel: Kernel) -> list[Poly]:
    """Of what every element of every row has for itself."""
    names = {f"i{d}" for d in range(len(kernel.dims))}
    loads = (node.polys[0] for node in walk_all(kernel.roots()) if node.op == "load")
    return [offset for offset in loads if names <= offset.names]


def _along(kernel: Kernel) -> int | None:
    offsets = _offsets(kernel)
    for dim in range(len(kernel.dims)):
        if offsets and all(offset.coefficient(f"i{dim}") == ONE for offset in offsets):
            return dim
    return None


def _taken_apart(kernel: Kernel) -> Kernel:
    """The kernel with two dimensions for each kept one that is read by quotient and remainder of a number."""
    for dim in kernel.outer:
        name = variable(f"i{dim}")
        for offset in _offsets(kernel):
            for monomial, _ in offset.terms:
                for atom in monomial:
                    if not isinstance(atom, tuple) or atom[0] != "%" or atom[1] != name:
                        continue
                    count = exact_quotient(kernel.dims[dim], atom[2])
                    if count is not None and count != ONE:
                        return _taken_apart(_in_two(kernel, dim, count, atom[2]))
    return kernel


def _in_two(kernel: Kernel, dim: int, count: Poly, size: Poly) -> Kernel:
    whole, rest = variable(f"i{dim}"), variable(f"i{dim + 1}")
    values = {f"i{d}": variable(f"i{d + 1}") for d in range(dim + 1, len(kernel.dims))}
    digits: dict[Atom, Poly] = {("//", whole, size): variable("whole"), ("%", whole, size): variable("rest")}
    later = {"whole": whole, "rest": rest}
    kernel = _substituted(kernel, {f"i{dim}": variable("whole") * size + variable("rest"), **values}, digits)
    kernel = _substituted(kernel, later, {})
    dims = (*kernel.dims[:dim], count, size, *kernel.dims[dim + 1 :])
    reduced = frozenset(d if d < dim else d + 1 for d in kernel.inner)
    return replace(kernel, dims=dims, reduced=reduced)


def _with_last(kernel: Kernel, dim: int) -> Kernel:
    """The kept dimensions that lie within a step of the reduced ones come behind those, ``dim`` last of all."""
    offset = _offsets(kernel)[0]
    inner = [d for d in kernel.inner if d != dim]
    steps = {d: _step(offset, d) for d in range(len(kernel.dims))}
    least = min((steps[d] for d in inner), default=0)
    near = sorted((d for d in kernel.outer if d != dim and steps[d] < least), key=lambda d: -steps[d])
    return _ordered(kernel, [*(d for d in kernel.outer if d not in (*near, dim)), *inner, *near, dim])


def in_store_order(kernel: Kernel, size_of: Callable[[Poly], int]) -> Kernel:
    """A pointwise kernel with its dimensions in the order of what it writes, where that is known."""
    offset = next(iter(kernel.stores.values())).offset
    steps = [offset.coefficient(name) for name in kernel.bounds]
    if any(step is None for step in steps):
        return kernel
    return _ordered(kernel, sorted(range(len(steps)), key=lambda d: -size_of(steps[d] or ZERO)))


def _ordered(kernel: Kernel, order: Sequence[int]) -> Kernel:
    values = {f"i{d}": variable(f"i{place}") for place, d in enumerate(order)}
    kernel = _substituted(kernel, values, {})
    dims = tuple(kernel.dims[d] for d in order)
    reduced = None if kernel.reduced is None else frozenset(p for p, d in enumerate(order) if d in kernel.reduced)
    return replace(kernel, dims=dims, reduced=reduced)


def _step(offset: Poly, dim: int) -> float:
    """How far elements along ``dim`` are from each other; infinite where the sizes say."""
    factor = offset.coefficient(f"i{dim}")
    return factor.constant if factor is not None and factor.constant is not None else math.inf


def _substituted(kernel: Kernel, values: Mapping[str, Poly], digits: Mapping[Atom, Poly]) -> Kernel:
    """Names replaced everywhere, and before that whole terms."""

    def digit(value: Scalar) -> Scalar | None:
        polys = tuple(_digits(p, digits) for p in value.polys)
        return replace(value, polys=polys) if polys != value.polys else None

    def scalar(value: Scalar) -> Scalar:
        return rewrite(rewrite(value, digit) if digits else value, lambda _: None, dict(values))

    return replace(
        kernel,
        accumulations={n: replace(a, body=scalar(a.body)) for n, a in kernel.accumulations.items()},
        stores={
            n: replace(s, offset=_digits(s.offset, digits).substitute(values), value=scalar(s.value))
            for n, s in kernel.stores.items()
        },
    )


def _digits(p: Poly, digits: Mapping[Atom, Poly]) -> Poly:
    total = ZERO
    for monomial, number in p.terms:
        term = poly(number)
        for atom in monomial:
            term = term * (digits[atom] if atom in digits else Poly((((atom,), 1),)))
        total = total + term
    return total
