"""Index arithmetic: polynomials with integer coefficients over loop variables, sizes and opaque terms.

Shapes and offsets are compared and simplified here, so that `(i0*s1 + i1)//s1` becomes `i0` and two spellings of one
size are equal. Opaque terms are quotients, remainders, minima, maxima and values read at run time.
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from ...hardware.sources.parsing import parse

UNKNOWN = re.compile(r"\bu\d+\b")
"""What torch calls numbers that only the call knows."""

Atom = Any
"""A name (loop variable or size symbol), or a tuple ``(operator, Poly, …)`` or ``("value", Scalar)``."""

Monomial = tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Poly:
    """A sum of integer multiples of products of atoms, in canonical order."""

    terms: tuple[tuple[Monomial, int], ...]

    @cached_property
    def key(self) -> str:
        """Canonical text: equal polynomials have equal keys."""
        return "+".join(f"{c}*{'*'.join(map(atom_key, m))}" for m, c in self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: "Poly | int") -> "Poly":
        other = poly(other)
        if not self.terms or not other.terms:
            return self if self.terms else other
        return _collect([*self.terms, *other.terms])

    def __sub__(self, other: "Poly | int") -> "Poly":
        return self + poly(other) * -1

    def __mul__(self, other: "Poly | int") -> "Poly":
        other = poly(other)
        for factor, rest in ((self.constant, other), (other.constant, self)):
            if factor is not None:
                return rest if factor == 1 else Poly(tuple((m, c * factor) for m, c in rest.terms if factor))
        products = [(a + b, x * y) for a, x in self.terms for b, y in other.terms]
        return _collect([(tuple(sorted(m, key=atom_key)), c) for m, c in products])

    @property
    def constant(self) -> int | None:
        """Its value if it is a number, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def is_name(self) -> bool:
        """Whether it is just one variable or symbol."""
        return len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1

    @cached_property
    def names(self) -> frozenset[str]:
        """Every variable and symbol in it, those inside opaque terms and values included."""
        names: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                names |= atom_names(atom)
        return frozenset(names)

    def coefficient(self, name: str) -> "Poly | None":
        """Factor of ``name`` if the polynomial is linear in it (and no opaque term holds it), else None."""
        factor = []
        for monomial, c in self.terms:
            holding = [atom for atom in monomial if name in atom_names(atom)]
            if not holding:
                continue
            if holding != [name]:
                return None
            factor.append((tuple(atom for atom in monomial if atom != name), c))
        return _collect(factor)

    def substitute(self, values: Mapping[str, "Poly"], scalar: "Callable[[Any], Any] | None" = None) -> "Poly":
        """Replace names by polynomials; ``scalar`` rewrites the values inside opaque terms."""
        if not self.names & values.keys() and scalar is None:
            return self
        total = ZERO
        for monomial, c in self.terms:
            product = poly(c)
            for atom in monomial:
                product = product * _substitute_atom(atom, values, scalar)
            total = total + product
        return total


def _substitute_atom(atom: Atom, values: Mapping[str, Poly], scalar: Callable[[Any], Any] | None) -> Poly:
    if isinstance(atom, str):
        return values[atom] if atom in values else Poly((((atom,), 1),))
    if atom[0] == "value":
        return value_atom(scalar(atom[1]) if scalar else atom[1])
    parts = [part.substitute(values, scalar) for part in atom[1:]]
    return {"//": floordiv, "%": modulo, "max": maximum, "min": minimum}[atom[0]](*parts)


def atom_key(atom: Atom) -> str:
    """Canonical text of an atom."""
    if isinstance(atom, str):
        return atom
    return f"~{atom[0]}({','.join(part.key for part in atom[1:])})"


def atom_names(atom: Atom) -> frozenset[str]:
    """Variables and symbols in an atom."""
    if isinstance(atom, str):
        return frozenset((atom,))
    return frozenset().union(*(part.names for part in atom[1:]))


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Poly:
    total: dict[str, tuple[Monomial, int]] = {}
    for monomial, c in terms:
        key = "*".join(map(atom_key, monomial))
        total[key] = (monomial, total[key][1] + c if key in total else c)
    return Poly(tuple(total[key] for key in sorted(total) if total[key][1]))


def poly(value: "Poly | int | str") -> Poly:
    """A number, a name or a Python expression as a polynomial."""
    if isinstance(value, Poly):
        return value
    if isinstance(value, int):
        return Poly((((), int(value)),)) if value else Poly(())
    return _parse(value)


ZERO = Poly(())
ONE = Poly((((), 1),))


def variable(name: str) -> Poly:
    """The polynomial that is just ``name``."""
    return Poly((((name,), 1),))


def value_atom(scalar: Any) -> Poly:
    """An integer computed at run time (a :class:`Scalar`), as an opaque term; an index is what it is."""
    if scalar.op == "index":
        index: Poly = scalar.polys[0]
        return index
    return Poly((((("value", scalar),), 1),))


def product(factors: Iterable[Poly]) -> Poly:
    """Product of all."""
    total = ONE
    for factor in factors:
        total = total * factor
    return total


def floordiv(a: Poly, b: Poly) -> Poly:
    """``a // b`` of non-negative integers."""
    if b.constant == 1:
        return a
    if a.constant is not None and b.constant:
        return poly(a.constant // b.constant)
    quotient = exact_quotient(a, b)
    return quotient if quotient is not None else Poly(((((("//", a, b)),), 1),))


def modulo(a: Poly, b: Poly) -> Poly:
    """``a % b`` of non-negative integers."""
    if b.constant == 1:
        return ZERO
    if a.constant is not None and b.constant:
        return poly(a.constant % b.constant)
    if exact_quotient(a, b) is not None:
        return ZERO
    return Poly((((("%", a, b),), 1),))


def divide(a: Poly, b: Poly, bounds: Mapping[str, Poly]) -> tuple[Poly, Poly]:
    """Quotient and remainder of ``a`` by ``b``, simplified with the loop variables' ``bounds`` (exclusive)."""
    whole, rest = ZERO, ZERO
    for term in a.terms:
        single = Poly((term,))
        quotient = exact_quotient(single, b)
        if quotient is not None:
            whole = whole + quotient
        else:
            rest = rest + single
    if rest == ZERO or _below(rest, b, bounds):
        return whole, rest
    return whole + floordiv(rest, b), modulo(rest, b)


def _below(value: Poly, limit: Poly, bounds: Mapping[str, Poly]) -> bool:
    """Whether ``0 <= value < limit`` surely: a number below a number, a variable, or digits of a mixed radix."""
    if value.constant is not None and limit.constant is not None:
        return 0 <= value.constant < limit.constant
    names = [m[0] for m, _ in value.terms if m and isinstance(m[-1], str)]
    top: Poly | None = ONE
    for _ in range(len(value.terms)):
        for name in value.names:
            factor = value.coefficient(name)
            if factor is not None and factor == top and name in bounds and top is not None:
                top = top * bounds[name]
                value = value.substitute({name: ZERO})
                break
    return bool(names) and value == ZERO and top == limit


def exact_quotient(a: Poly, b: Poly) -> Poly | None:
    """``a / b`` where every term of ``a`` is a multiple of ``b``; else None."""
    if a == b:
        return ONE
    if len(b.terms) != 1:
        return None
    divisor, scale = b.terms[0]
    terms = []
    for monomial, c in a.terms:
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % scale:
            return None
        terms.append((tuple(rest), c // scale))
    return _collect(terms)


def maximum(a: Poly, b: Poly) -> Poly:
    """The larger of two."""
    if a.constant is not None and b.constant is not None:
        return poly(max(a.constant, b.constant))
    return a if a == b else Poly((((("max", a, b),), 1),))


def minimum(a: Poly, b: Poly) -> Poly:
    """The smaller of two."""
    if a.constant is not None and b.constant is not None:
        return poly(min(a.constant, b.constant))
    return a if a == b else Poly((((("min", a, b),), 1),))


def _floor(a: Poly, b: Poly) -> Poly:
    """``a // b`` as Python has it, by quotients of what is not negative: of a negative number C++ and Triton cut off.
    Sizes are positive, and numbers that only the call knows need not be."""
    if not _may_cut_off(a, b):
        return floordiv(a, b)
    if b.constant is not None and b.constant < 0:
        return _floor(a * -1, b * -1)
    if _has_unknown(b):
        # One of the two is multiplied by 1, the other by 0; by 0 divides neither.
        return _signed(a, maximum(b, ONE)) * _sign(b) + _signed(a * -1, maximum(b * -1, ONE)) * _sign(b * -1)
    if _has_unknown(a):
        return _signed(a, b)
    if all(factor < 0 for _, factor in a.terms):
        return floordiv(a * -1 + b - 1, b) * -1
    # So many times ``b`` are added to what is subtracted that nothing is.
    least = b.constant or 1
    added = Poly(tuple((monomial, -(factor // least)) for monomial, factor in a.terms if factor < 0))
    return floordiv(a + added * b, b) - added


def _signed(a: Poly, b: Poly) -> Poly:
    """``a // b`` of any ``a`` and a positive ``b``: one of the two quotients is 0."""
    return floordiv(maximum(a, ZERO), b) - floordiv(maximum(a * -1, ZERO) + b - 1, b)


def _sign(value: Poly) -> Poly:
    """1 if it is positive, else 0."""
    return minimum(maximum(value, ZERO), ONE)


def _may_cut_off(a: Poly, b: Poly) -> bool:
    """Whether a multiple of a size is taken off, a sign differs, or one is known to the call alone."""
    signs = [factor < 0 for _, factor in a.terms]
    subtracts = any(factor < 0 and monomial for monomial, factor in a.terms) or (bool(signs) and all(signs))
    return subtracts or (b.constant is not None and b.constant < 0) or _has_unknown(a, b)


def _has_unknown(*values: Poly) -> bool:
    return any(UNKNOWN.fullmatch(name) for value in values for name in value.names)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Poly:
    return _from_ast(parse(text, mode="eval").body)


def _from_ast(tree: ast.expr) -> Poly:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return poly(tree.value)
    if isinstance(tree, ast.Name):
        return variable(tree.id)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return _from_ast(tree.operand) * -1
    if isinstance(tree, ast.BinOp):
        return _binary(tree)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id.lower() in ("max", "min"):
        parts = [_from_ast(arg) for arg in tree.args]
        pick = maximum if tree.func.id.lower() == "max" else minimum
        total = parts[0]
        for part in parts[1:]:
            total = pick(total, part)
        return total
    raise ValueError(f"{ast.unparse(tree)!r} is no integer expression over sizes")


def _binary(tree: ast.BinOp) -> Poly:
    left, right = _from_ast(tree.left), _from_ast(tree.right)
    match tree.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return _floor(left, right)
        case ast.Mod():
            return left - _floor(left, right) * right if _may_cut_off(left, right) else modulo(left, right)
        case ast.Pow() if right.constant is not None and right.constant >= 0:
            return product([left] * right.constant)
    raise ValueError(f"{ast.unparse(tree)!r} is no integer expression over sizes")
