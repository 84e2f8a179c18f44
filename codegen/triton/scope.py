"""Places generated Triton statements: in or before the loop over a row, each value once."""

import keyword
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ..ir.loops import Store
from ..ir.poly import ZERO, Atom, Poly, variable
from ..ir.printing import text_poly, unused_name
from ..ir.scalar import Scalar, walk_all
from .text import TYPES, TritonNeeds, constant, number_text, operation, typed

Guard = tuple[str, frozenset[str]]
Key = tuple[str, tuple[Guard, ...], str]
"""A value's identity, the conditions under which it was read, and what it is where they do not hold."""
AvailableValues = dict[Key, str]
"""Variables that hold values."""

OUTSIDE, INSIDE = 0, 1
"""Levels: once for a program's rows, or for every block of their elements."""

_SIZE = re.compile(r"[su]\d+")
_TAKEN = {"tl", "triton", "libdevice", "rows", "cols", "pid", "start", "torch", "min", "max", "range", "float", "int"}


@dataclass(frozen=True)
class Axis:
    """Loop variables that one index of a tile runs over, outermost first."""

    name: str
    """Name of the linear index in the generated code."""
    variables: tuple[str, ...]
    sizes: tuple[Poly, ...]
    mask: str
    """Name of its mask; empty if it never runs over its end."""

    def linear(self, p: Poly) -> Poly:
        """``p`` in terms of the linear index, where the variables walk as one."""
        if len(self.variables) < 2 or not p.names & set(self.variables):
            return p
        factors = [p.coefficient(name) for name in self.variables]
        for k, size in enumerate(self.sizes[1:]):
            outer, inner = factors[k], factors[k + 1]
            if outer is None or inner is None or outer != inner * size:
                return p
        values = dict.fromkeys(self.variables, ZERO)
        return p.substitute({**values, self.variables[-1]: variable(self.name)})

    def texts(self, size: Callable[[Poly], str]) -> dict[str, str]:
        """Every variable in terms of the linear index."""
        texts: dict[str, str] = {}
        below = ""
        for name, extent in reversed(list(zip(self.variables, self.sizes, strict=True))):
            text = f"({self.name} // ({below}))" if below else self.name
            texts[name] = f"({text} % ({size(extent)}))" if name != self.variables[0] else text
            below = f"{below} * ({size(extent)})" if below else f"({size(extent)})"
        return texts


class TritonScope:
    """Prints values as Triton; ``lines`` are those of the two levels."""

    def __init__(self, needs: TritonNeeds, axes: list[Axis], inner: set[str]) -> None:
        self.needs = needs
        self.axes = axes
        self.inner = set(inner)
        self.policies: dict[str, str] = {}
        """What the caches are told about a buffer that is read."""
        self.lines: list[list[str]] = [[], []]
        self.available: list[AvailableValues] = [{}, {}]
        self.results: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        for axis in axes:
            self.variables |= axis.texts(self.index)
        self.uses: Counter[str] = Counter()
        self.taken: set[str] = set(_TAKEN)
        self.guards: tuple[Guard, ...] = ()
        """Conditions under which what is printed now may be read, with the names they depend on."""
        self.fill = "0"
        """What a load has where it reads nothing."""
        self.padded = False
        """Whether what a load has there is what its value is."""
        self.extra_mask = ""
        self.one_level = False
        self.varying: dict[str, tuple[str, ...]] = {}
        """By level of a store, the axes that what is written varies along, also where they have one element."""

    def enter(self) -> None:
        """Begin a new block of elements."""
        if not self.one_level:
            self.lines[INSIDE], self.available[INSIDE] = [], {}

    def count(self, roots: list[Scalar]) -> None:
        """Count uses, so that what is used once stays part of a larger expression."""
        self.uses = Counter()
        for root in roots:
            self.uses[root.key] += 1
        for node in walk_all(roots):
            for operand in node.operands():
                self.uses[operand.key] += 1

    def level(self, names: frozenset[str]) -> int:
        """Where something that depends on ``names`` is computed."""
        return INSIDE if names & self.inner and not self.one_level else OUTSIDE

    def index(self, p: Poly) -> str:
        """An index polynomial; what is the same for all elements comes last, so that offsets begin alike."""
        for axis in self.axes:
            p = axis.linear(p)
        if len(p.terms) > 1:
            p = Poly(tuple(sorted(p.terms, key=lambda term: _is_size(Poly((term,))))))
        return text_poly(p, self._atom)

    def offset(self, p: Poly) -> str:
        """An index polynomial as ``row part + part inside the row``: the first is a scalar most of the time."""
        parts: list[list[tuple[tuple[Atom, ...], int]]] = [[], []]
        for term in p.terms:
            parts[bool(Poly((term,)).names & self.inner)].append(term)
        return " + ".join(f"({self.index(Poly(tuple(terms)))})" for terms in parts if terms) or "0"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, str):
            return self.variables.get(atom, atom)
        if atom[0] == "value":
            return self.text(atom[1])
        a, b = (self.index(part) for part in atom[1:])
        if atom[0] in ("max", "min"):
            return f"tl.{atom[0]}imum({a}, {b})"
        return f"(({a}) {atom[0]} ({b}))"

    def mask(self, names: frozenset[str]) -> str:
        """What a memory access that depends on ``names`` needs; empty if it needs nothing."""
        left = list(dict.fromkeys(self.guards))
        groups = []
        # What depends on one axis alone is a row or a column of a tile: put together first, it costs next to nothing.
        for axis in self.axes:
            others = {name for other in self.axes if other is not axis for name in other.variables}
            own = [text for text, on in left if not on & others]
            left = [(text, on) for text, on in left if on & others]
            groups.append([axis.mask, *own] if axis.mask and names & set(axis.variables) else own)
        if self.extra_mask and names & self.inner:
            groups.append([self.extra_mask])
        groups = [group for group in [*groups, *([text] for text, _ in left)] if group]
        several = len(groups) > 1
        return " & ".join(f"({' & '.join(g)})" if several and len(g) > 1 else " & ".join(g) for g in groups)

    def text(self, value: Scalar) -> str:
        """An expression for ``value``; statements it needs have been added."""
        if value.op == "const":
            return constant(value.data, value.dtype)
        if value.op == "result":
            return self.results[value.data]
        if value.op == "index":
            return f"({self.index(value.polys[0])})"
        outside = self.guards
        if outside and not self.padded:
            self.guards = _needed(value, outside)
        text = self._text(value)
        self.guards = outside
        return text

    def _text(self, value: Scalar) -> str:
        key = (value.key, self.guards, self.fill) if _reads(value) else (value.key, (), "0")
        for names in self.available:
            if key in names:
                return names[key]
        expression = self._expression(value)
        if not (self.uses[value.key] > 1 or value.op in ("load", "search", "segment") or value.cost > 12):
            return expression
        return self._named(value, key, expression)

    def _named(self, value: Scalar, key: Key, expression: str) -> str:
        level = self.level(value.names.union(*(names for _, names in key[1])))
        name = self.fresh(value.label[0] if value.label else "t")
        self.lines[level].append(f"{name} = {expression}")
        self.available[level][key] = name
        return name

    def fresh(self, base: str) -> str:
        """A name that nothing has yet."""
        return unused_name(pname(base), self.taken)

    def _expression(self, value: Scalar) -> str:
        match value.op:
            case "size":
                return self.needs.floats.setdefault(value.data, f"FLOAT{len(self.needs.floats)}")
            case "load":
                return self._load(value)
            case "wrap":
                inner = self.typed(value.args[0])
                return f"{self.needs.helper('ks_wrap')}({inner}, {self.index(value.polys[0])})"
            case "search":
                return self._search(value)
            case "piecewise":
                return self._piecewise(value)
        return operation(value, [self.text(arg) for arg in value.args], self.needs)

    def typed(self, value: Scalar) -> str:
        """As :meth:`text`, of a constant as a value of its type."""
        return typed(value.data, value.dtype) if value.op == "const" else self.text(value)

    def _load(self, value: Scalar) -> str:
        buffer, dtype = value.data
        p = value.polys[0]
        mask = self.mask(p.names)
        arguments = [f"{pname(buffer)}_ptr + {self.offset(p)}{self._spread(p.names)}"]
        if mask:
            arguments += [f"mask={mask}", f"other={self.fill}"]
        if buffer in self.policies:
            arguments.append(f'eviction_policy="{self.policies[buffer]}"')
        text = f"tl.load({', '.join(arguments)})"
        return f"{text}.to(tl.float32)" if dtype in ("bfloat16", "float16") else text

    def _spread(self, names: frozenset[str]) -> str:
        """A mask that varies along an axis needs addresses that do."""
        guard_names = frozenset().union(*(names for _, names in self.guards))
        axes = [a for a in self.axes if guard_names & set(a.variables) and not names & set(a.variables)]
        return "".join(f" + 0 * {axis.name}" for axis in axes)

    def _search(self, value: Scalar) -> str:
        key = self.typed(value.args[0])
        if value.args[0].op == "index":
            key = f"tl.cast({key}, tl.int64)"
        table = f"{pname(value.data[0])}_ptr + {self.offset(value.polys[0])}"
        return f"{self.needs.helper('ks_search')}({table}, {self.index(value.polys[1])}, {key}, {value.flag})"

    def _piecewise(self, value: Scalar) -> str:
        """A choice by position: a part may be read only where it is the one that is taken."""
        position = f"({self.index(value.polys[0])})"
        bounds = [f"({self.index(p)})" for p in value.polys[1:]]
        outside = self.guards, self.fill, self.padded
        padding = _padding(value)
        if padding is not None:
            self.fill, self.padded = number_text(padding, value.dtype), True
        names = frozenset().union(*(p.names for p in value.polys))
        parts = []
        for n, arg in enumerate(value.args):
            inside = [f"({position} >= {bounds[n - 1]})"] if n else []
            inside += [f"({position} < {bounds[n]})"] if n < len(bounds) else []
            self.guards = (*outside[0], *((text, names) for text in inside))
            parts.append(self.typed(arg))
        self.guards, self.fill, self.padded = outside
        if padding is not None:
            return next(part for part, arg in zip(parts, value.args, strict=True) if arg.op != "const")
        text = parts[-1]
        for bound, part in reversed(list(zip(bounds, parts[:-1], strict=True))):
            text = f"tl.where({position} < {bound}, {part}, {text})"
        return text

    def store(self, store: Store, cache: str = "") -> str:
        """A statement that writes a value."""
        text = self.typed(store.value)
        if store.value.op == "index":
            text = f"tl.cast({text}, {TYPES[store.value.dtype]})"
        single = [
            axis
            for axis in self.axes
            if axis.name in self.varying.get(store.level, ()) and not store.offset.names & set(axis.variables)
        ]
        spread = "".join(f" + 0 * {axis.name}" for axis in single)
        arguments = [f"{pname(store.buffer.name)}_out + {self.offset(store.offset)}{spread}", text]
        mask = self.mask(store.offset.names.union(*(axis.variables for axis in single)))
        if mask:
            arguments.append(f"mask={mask}")
        if cache:
            arguments.append(f'cache_modifier="{cache}"')
        return f"tl.store({', '.join(arguments)})"


def _padding(value: Scalar) -> float | int | None:
    """The number around a tensor that is read at one place, if that is all that a choice by position chooses from."""
    fills: dict[str, float | int] = {}
    while value.op == "piecewise":
        around = [arg for arg in value.args if arg.op == "const"]
        if len(around) != len(value.args) - 1 or value.dtype == "bool":
            return None
        fills |= {repr(arg.data): arg.data for arg in around}
        value = next(arg for arg in value.args if arg.op != "const")
    return next(iter(fills.values())) if value.op == "load" and len(fills) == 1 else None


def _needed(value: Scalar, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
    """Conditions that say whether there is something where ``value`` reads: others only say whether it is taken.

    One over sizes alone may be about any place.
    """
    read = [node for node in value.walk() if node.op in ("load", "search")]
    places = frozenset[str]().union(*(node.names for node in read))
    needed = []
    for text, names in guards:
        variables = frozenset(name for name in names if not _SIZE.fullmatch(name))
        if read and (not variables or variables & places):
            needed.append((text, names))
    return tuple(needed)


def _is_size(p: Poly) -> bool:
    return all(_SIZE.fullmatch(name) for name in p.names)


def _reads(value: Scalar) -> bool:
    return any(node.op in ("load", "search") for node in value.walk())


def pname(name: str) -> str:
    """A graph's name as an identifier in a kernel."""
    clean = re.sub(r"\W", "_", name)
    reserved = keyword.iskeyword(clean) or clean in _TAKEN or re.fullmatch(r"[isu]\d+|ks_\w+|[A-Z]\w*", clean)
    return f"{clean}_" if reserved else clean
