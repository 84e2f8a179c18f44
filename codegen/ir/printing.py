"""Prints sizes and index polynomials in Python and C++; compares functions by their text without names."""

import re
from collections.abc import Callable, Iterable

from .poly import Atom, Poly


def unused_name(base: str, taken: set[str]) -> str:
    """``base``, with a number behind it where ``taken`` has it; ``taken`` has the name from then on."""
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return name


def python_poly(p: Poly) -> str:
    """A polynomial as a Python expression over its symbols."""
    return text_poly(p, _python_atom)


def _python_atom(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    parts = [python_poly(part) for part in atom[1:]]
    if atom[0] in ("max", "min"):
        return f"{atom[0]}({parts[0]}, {parts[1]})"
    return f"(({parts[0]}) {atom[0]} ({parts[1]}))"


def text_poly(p: Poly, atom_text: Callable[[Atom], str]) -> str:
    """A polynomial as a sum of products; the same spelling is right in Python and in C++."""
    if not p.terms:
        return "0"
    text = ""
    for monomial, c in p.terms:
        factors = [atom_text(atom) for atom in monomial]
        if abs(c) != 1 or not factors:
            factors.insert(0, str(abs(c)))
        sign = "-" if c < 0 else "+"
        term = " * ".join(factors)
        text = f"{text} {sign} {term}" if text else (f"-{term}" if c < 0 else term)
    return text


def nameless(text: str, declared: Iterable[str]) -> str:
    """A function's ``text`` with numbers in the place of the names that it declares, by their first place."""
    numbers: dict[str, str] = {}
    for name in declared:
        numbers.setdefault(name, f"@{len(numbers)}")
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda name: numbers.get(name[0], name[0]), text)
