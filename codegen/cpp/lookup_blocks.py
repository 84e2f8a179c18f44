"""C++ for searches in sorted tables and in segment offsets, for a block of elements at once."""

from dataclasses import dataclass, replace

from ..ir.poly import ONE, variable
from ..ir.scalar import Scalar, rewrite
from .lookup import call, index_statement
from .passes_types import Item, Range, indent
from .scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .text import ctype, index_text

BLOCK = 1024
"""Elements looked up at once: queries and answers stay in the first-level cache."""


@dataclass(frozen=True)
class Staged:
    """What a loop over a block begins with, and what is left of its items."""

    lines: list[str]
    items: list[Item]


def stage(items: list[Item], loop: Range, scope: Scope, algorithm: str) -> Staged | None:
    """Take the searches out of ``items``; None if there are none that a block of elements can share."""
    lines: list[str] = []
    number = scope.stages
    while (search := _innermost(items, loop.variable, scope)) is not None:
        array = f"found{scope.stages}"
        scope.stages += 1
        direct = [item for item in items if _is_direct(item, search, loop.variable)]
        target = _destination(direct[0], loop, scope) if direct else array
        if not direct:
            lines.append(f"int64_t {array}[{BLOCK}];")
        lines += _call(search, loop, scope, algorithm, target, array)
        if direct and len(direct) == 1 and sum(_uses(item, search) for item in items) == 1:
            items = [item for item in items if item is not direct[0]]
            continue
        here = variable(loop.variable) - variable(f"{loop.variable}_block")
        place = here if not direct else direct[0].store.offset  # type: ignore[union-attr]
        source = array if not direct else f"{direct[0].store.buffer.name}_out"  # type: ignore[union-attr]
        dtype = "int64" if not direct else direct[0].store.buffer.dtype  # type: ignore[union-attr]
        answer = Scalar("load", "int64", polys=(place,), data=(source, dtype), label=search.label)
        if direct and dtype != "int64":
            answer = Scalar("cast", "int64", (replace(answer, dtype=dtype),))
        items = [i for i in items if not (direct and i is direct[0])]
        items = [replace(item, value=_replaced(item.value, search, answer)) for item in items]
    return Staged(lines, items) if scope.stages > number else None


def _replaced(value: Scalar, old: Scalar, new: Scalar) -> Scalar:
    return rewrite(value, lambda node: new if node.key == old.key else None)


def _uses(item: Item, search: Scalar) -> bool:
    return any(node.key == search.key for node in item.value.walk())


def _innermost(items: list[Item], name: str, scope: Scope) -> Scalar | None:
    """A search of this loop whose queries need no other search."""
    for item in items:
        for node in item.value.walk():
            if node.op == "segment" and node.polys[0].coefficient(name) == ONE:
                return node
            table_moves = any(p.names & scope.inner for p in node.polys)
            if node.op == "search" and name in node.args[0].names and not table_moves:
                return node
    return None


def _is_direct(item: Item, search: Scalar, name: str) -> bool:
    """Whether the answers are what the item writes, one after the other."""
    value = item.value
    if value.op == "cast" and value.dtype == "int32":
        value = value.args[0]
    store = item.store
    if store is None or value.key != search.key or store.buffer.dtype not in ("int64", "int32"):
        return False
    return store.offset.coefficient(name) == ONE


def _destination(item: Item, loop: Range, scope: Scope) -> str:
    assert item.store is not None
    start = item.store.offset.substitute({loop.variable: variable(f"{loop.variable}_block")})
    return f"{cname(item.store.buffer.name)}_out + {index_text(start, scope.text)}"


def _call(search: Scalar, loop: Range, scope: Scope, algorithm: str, target: str, prefix: str) -> list[str]:
    if search.op == "segment":
        return _segments(search, loop, scope, target)
    buffer = cname(search.data[0])
    table, length = index_text(search.polys[0], scope.text), index_text(search.polys[1], scope.text)
    table = buffer if table == "0" else f"{buffer} + {table}"
    key = ctype(search.args[0].dtype)
    scope.needs.lookups.add(algorithm)
    built = index_statement(algorithm, key=key, index=f"{prefix}_index", table=table, length=length)
    if built:
        once = not search.polys[0].names & (scope.outer | scope.inner)
        scope.lines[FUNCTION if once else ROW].append(built)
    lines, queries = _queries(search.args[0], loop, scope, prefix)
    width = f"{loop.variable}_width"
    text = call(
        algorithm,
        right=search.flag,
        table=table,
        length=length,
        queries=queries,
        results=target,
        count=width,
        index=f"{prefix}_index",
    )
    return [*lines, text]


def _segments(segment: Scalar, loop: Range, scope: Scope, target: str) -> list[str]:
    """Segments of consecutive positions: found once for the first, then counted on."""
    scope.needs.helper("ks_segment")
    start = segment.polys[0].substitute({loop.variable: variable(f"{loop.variable}_block")})
    offsets, length = cname(segment.data), index_text(segment.polys[1], scope.text)
    begin = index_text(start, scope.text)
    return [f"{scope.needs.helper('ks_segments')}({offsets}, {length}, {begin}, {loop.variable}_width, {target});"]


def _queries(value: Scalar, loop: Range, scope: Scope, prefix: str) -> tuple[list[str], str]:
    """Where the queries are: in an input as they stand, or computed into a small array."""
    block = variable(f"{loop.variable}_block")
    if value.op == "load" and value.polys[0].coefficient(loop.variable) == ONE and value.data[1] == value.dtype:
        start = value.polys[0].substitute({loop.variable: block})
        return [], f"{cname(value.data[0])} + {index_text(start, scope.text)}"
    name = f"{prefix}_queries"
    scope.enter_elements()
    scope.count([value])
    text = scope.text(value)
    return [
        f"{ctype(value.dtype)} {name}[{BLOCK}];",
        f"for (int64_t l = 0; l < {loop.variable}_width; ++l) {{",
        f"  const int64_t {loop.variable} = {loop.variable}_block + l;",
        *indent(scope.lines[ELEMENT]),
        f"  {name}[l] = {text};",
        "}",
    ], name
