"""Scalar expressions: the computation of one element. The same for C++ and Triton, which print them."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .poly import Poly


@dataclass(frozen=True, eq=False)
class Scalar:
    """A node of an expression graph; equal keys mean equal values.

    ``op`` is one of

    - ``const`` (``data``: the number), ``index`` (``polys[0]`` as an integer), ``size`` (``data``: Python expression),
    - ``quotient`` (``polys``: dividend and divisor; ``data``: its sign): part of an index, only while code is printed,
    - ``load`` (``data``: buffer, ``polys[0]``: element offset), ``result`` (``data``: name of a reduction),
    - ``local`` (``data``: what a kernel of steps keeps, ``polys``: its place), ``item`` (the same, at an offset),
    - ``piecewise`` (``polys``: index and the upper bound of every part but the last; ``args``: value in each part),
    - ``wrap`` (``args[0]``: an index into ``polys[0]`` elements; ``flag``: negative ones count from the end),
    - ``search`` (``args[0]``: what is looked for; ``data``: table; ``polys``: its offset and length; ``flag``: right),
    - or an operation on ``args``: ``add``, ``exp``, ``select``, ``cast``, …
    """

    op: str
    dtype: str
    args: "tuple[Scalar, ...]" = ()
    polys: tuple[Poly, ...] = ()
    data: Any = None
    flag: bool = False
    label: list[str] = field(default_factory=list)
    """Names of the graph's nodes that this value is; only for readable code, no part of its identity."""

    @cached_property
    def key(self) -> str:
        """Identity by structure."""
        parts = [self.op, self.dtype, repr(self.data), str(self.flag)]
        text = "|".join([*parts, *(a.key for a in self.args), *(p.key for p in self.polys)])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def names(self) -> frozenset[str]:
        """Loop variables and size symbols it depends on; results of reductions appear as ``@name``."""
        names: set[str] = {f"@{self.data}"} if self.op in ("result", "local", "item") else set()
        for arg in self.args:
            names |= arg.names
        for p in self.polys:
            names |= p.names
        return frozenset(names)

    @cached_property
    def cost(self) -> int:
        """Rough arithmetic cost, shared parts counted once for each use; capped."""
        own = {"const": 0, "index": 0, "result": 0, "size": 0, "load": 1, "search": 40}.get(
            self.op, COSTLY.get(self.op, 1)
        )
        return min(own + sum(a.cost for a in self.operands()), 10_000)

    def operands(self) -> "Iterator[Scalar]":
        """Direct operands, those inside index terms included."""
        yield from self.args
        for p in self.polys:
            yield from poly_values(p)

    def walk(self) -> "Iterator[Scalar]":
        """It and everything below it, each once, operands first."""
        return walk_all((self,))


def walk_all(roots: Iterable[Scalar]) -> Iterator[Scalar]:
    """Each of ``roots`` and everything below it, each once however many share it, operands first."""
    seen: set[str] = set()
    for root in roots:
        stack: list[tuple[Scalar, bool]] = [(root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                yield node
                continue
            if node.key in seen:
                continue
            seen.add(node.key)
            stack.append((node, True))
            stack.extend((operand, False) for operand in node.operands())


COSTLY = {
    "exp": 12, "exp2": 12, "expm1": 16, "log": 14, "log2": 14, "log10": 14, "log1p": 18, "tanh": 20, "erf": 20,
    "erfc": 24, "sin": 20, "cos": 20, "tan": 30, "pow": 40, "sigmoid": 16, "div": 4, "sqrt": 4, "rsqrt": 6, "asin": 24,
    "acos": 24, "atan": 24, "sinh": 24, "cosh": 24, "asinh": 24, "acosh": 24, "atanh": 24, "atan2": 30, "lgamma": 60,
    "floor_div": 10, "remainder": 10, "fmod": 10, "trunc_div": 10, "reciprocal": 4,
    "ordered": 8, "exp_down": 12,
}  # fmt: skip
"""Operations that cost more than one instruction, in instructions a lane."""


def poly_values(p: Poly) -> Iterator[Scalar]:
    """Run-time values inside an index polynomial."""
    for monomial, _ in p.terms:
        for atom in monomial:
            if not isinstance(atom, tuple):
                continue
            if atom[0] == "value":
                yield atom[1]
            else:
                for part in atom[1:]:
                    yield from poly_values(part)


def rewrite(root: Scalar, change: Callable[[Scalar], Scalar | None], names: dict[str, Poly] | None = None) -> Scalar:
    """Rebuild ``root``: ``change`` may replace a node before its operands are seen, ``names`` replaces variables."""
    return rewriter(change, names)(root)


def rewriter(
    change: Callable[[Scalar], Scalar | None], names: dict[str, Poly] | None = None
) -> Callable[[Scalar], Scalar]:
    """:func:`rewrite` for several roots, which rebuilds what they share once."""
    memo: dict[str, Scalar] = {}

    def visit(node: Scalar) -> Scalar:
        if node.key in memo:
            return memo[node.key]
        changed = change(node)
        if changed is not None and changed.key != node.key:
            result = visit(changed)
        else:
            args = tuple(visit(a) for a in node.args)
            polys = tuple(p.substitute(names or {}, visit) for p in node.polys)
            result = Scalar(node.op, node.dtype, args, polys, node.data, node.flag, node.label)
        memo[node.key] = result
        return result

    return visit
