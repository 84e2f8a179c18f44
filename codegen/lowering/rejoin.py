"""Simplifies indices that a view takes apart and another puts together: ``x // d * d + x % d`` is ``x``."""

from dataclasses import replace

from ..ir.loops import Kernel
from ..ir.poly import ZERO, Atom, Poly
from ..ir.scalar import Scalar


def rejoined(kernel: Kernel) -> Kernel:
    """The same kernel with every offset in as few terms as that gives: what is contiguous is seen to be."""
    changed = kernel.rewritten(rejoined_load)
    stores = {n: replace(s, offset=together(s.offset)) for n, s in changed.stores.items()}
    return replace(changed, stores=stores)


def rejoined_load(value: Scalar) -> Scalar | None:
    """A load with its offset so; None where it stays as it is, or is none."""
    if value.op != "load":
        return None
    offset = together(value.polys[0])
    if offset == value.polys[0]:
        return None
    return Scalar("load", value.dtype, value.args, (offset,), value.data, value.flag, value.label)


def together(p: Poly) -> Poly:
    """``p`` with remainders and quotients of the same division as what was divided.

    Where one of three dimensions is left out, ``x // d % n * d + x % d`` is ``x % (d * n)``: only what is no whole.
    """
    remainders = list(dict.fromkeys(a for atoms, _ in p.terms for a in atoms if isinstance(a, tuple) and a[0] == "%"))
    pairs: list[tuple[Atom, Atom, Poly]] = [(a, ("//", a[1], a[2]), a[1]) for a in remainders]
    for _, below, size in remainders:
        quotient = _poly(("//", below, size))
        whole = (a for a in remainders if a[1] == quotient)
        pairs += [(("%", below, size), a, _poly(("%", below, size * a[2]))) for a in whole]
    for atom, divided, joined in pairs:
        rest, factor = _factor(p, atom), _factor(p, divided)
        if rest is not None and factor is not None and rest != ZERO and factor == rest * atom[2]:
            return together(p - rest * _poly(atom) - factor * _poly(divided) + rest * joined)
    return p


def _poly(atom: Atom) -> Poly:
    return Poly((((atom,), 1),))


def _factor(p: Poly, atom: Atom) -> Poly | None:
    """What ``atom`` is multiplied with in ``p``; None where it stands in a power of itself."""
    factor = ZERO
    for monomial, number in p.terms:
        if monomial.count(atom) > 1:
            return None
        if atom in monomial:
            factor = factor + Poly(((tuple(a for a in monomial if a != atom), number),))
    return factor
