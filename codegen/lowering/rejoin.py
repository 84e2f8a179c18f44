"""Offsets that a shape took apart and the same one puts together again: ``x // d * d + x % d`` is ``x``."""

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
    """``p`` with remainders and quotients of the same division as what was divided."""
    for monomial, _ in p.terms:
        for atom in monomial:
            if not isinstance(atom, tuple) or atom[0] != "%":
                continue
            below, size = atom[1:]
            rest, whole = _factor(p, atom), _factor(p, ("//", below, size))
            if rest is not None and whole is not None and rest != ZERO and whole == rest * size:
                divided: Atom = ("//", below, size)
                return together(p - rest * _poly(atom) - whole * _poly(divided) + rest * below)
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
