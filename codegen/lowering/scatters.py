"""Rewrites writes into a part of a tensor as concatenations of the old and the new parts.

``h[:, t] = v`` is ``select_scatter(h, v, 1, t)``: a copy of all of ``h`` for each step of a recurrence. Where the
places are numbers, a later read of one part is a read of what was written there, and all writes are one concatenation.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec import structs

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Items, Node, Ref
from ..ir.poly import ONE, ZERO, Poly, poly
from .renaming import renamed
from .views import resized, shape_of, size_argument

_SELECT, _SLICE, _UNBIND = "aten.select.int", "aten.slice.Tensor", "aten.unbind.int"
_SCATTERS = {"aten.select_scatter.default": _SELECT, "aten.slice_scatter.default": _SLICE}


@dataclass(frozen=True)
class _Part:
    """What stands between two places of one dimension."""

    source: str
    begin: Poly
    end: Poly
    offset: Poly | None
    """Where it begins in the source; None: the source has no such dimension."""


@dataclass(frozen=True)
class _Whole:
    """A tensor put together along one dimension."""

    dim: int
    parts: tuple[_Part, ...]


def assembled(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The same nodes with every ``select_scatter`` and ``slice_scatter`` at places that are numbers taken apart."""
    if not any(node.target in _SCATTERS for node in nodes):
        return nodes
    return _Assembling(nodes).nodes()


class _Assembling:
    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.given = nodes
        self.by_name = {node.name: node for node in nodes}
        self.names: dict[str, str] = {}
        """Nodes that are others."""
        self.wholes: dict[str, _Whole] = {}

    def nodes(self) -> tuple[Node, ...]:
        """Every node, those that nothing reads any more left out."""
        kept = []
        for node in self.given:
            node = self._rewritten(renamed(node, self.names))
            self.by_name[node.name] = node
            if node.name not in self.names:
                kept.append(node)
        live: set[str] = set()
        result: list[Node] = []
        for node in reversed(kept):
            whole = self.wholes.get(node.name)
            if whole is not None and node.name not in live:
                continue
            made = [node] if whole is None else list(self._concatenation(node, whole))
            for part in made:
                live.update(operands(part))
            result += reversed(made)
        return tuple(reversed(result))

    def _rewritten(self, node: Node) -> Node:
        if node.target in _SCATTERS:
            return self._written(node)
        if node.target == "operator.getitem":
            node = self._sliced(node)
        if node.target in (_SELECT, _SLICE):
            return self._read(node)
        if node.target == "aten.copy.default":
            # What is written over does not matter; where it has another shape or dtype, it says which.
            source = self.by_name[next(refs(node.args[1:2]), node.name)]
            if source.op == "call" and _form(source) == _form(node):
                return self._same(node, source)
        return node

    def _sliced(self, node: Node) -> Node:
        """A part of a split of what was put together, as the slice that it is."""
        split = self.by_name[next(refs(node.args))]
        name = next(refs(split.args), "")
        if name not in self.wholes or not split.target.startswith(("aten.split", "aten.unbind")):
            return node
        base = self.by_name[name]
        dim, place = split.args[-1] if len(split.args) > 1 + (split.target != _UNBIND) else 0, node.args[1]
        assert isinstance(dim, int) and isinstance(place, int)
        if split.target == _UNBIND:
            return structs.replace(node, target=_SELECT, args=(Ref(name=name), dim, place), kwargs={})
        sizes = split.args[1]
        parts = sizes.items if isinstance(sizes, Items) else (sizes,) * (place + 1)
        if not all(isinstance(size, int) for size in parts) or not base.values[0].shape:
            return node
        begin = sum(parts[:place])  # type: ignore[arg-type]
        args = (Ref(name=name), dim, begin, begin + parts[place])  # type: ignore[operator]
        return structs.replace(node, target=_SLICE, args=args, kwargs={})

    def _written(self, node: Node) -> Node:
        base, source = (self.by_name[name] for name in refs(node.args[:2]))
        shape = shape_of(node)
        dim, begin = self._place(node, 2)
        if begin is None or source.values[0].dtype != node.values[0].dtype:
            return node
        selects = _SCATTERS[node.target] == _SELECT
        inner = shape_of(source)
        if inner[:dim] + inner[dim + (not selects) :] != shape[:dim] + shape[dim + 1 :]:
            return node
        length = ONE if selects else inner[dim]
        if length == ZERO:
            return node
        if not selects and length == shape[dim]:
            return self._same(node, source)
        part = _Part(source.name, begin, begin + length, None if selects else ZERO)
        whole = self.wholes.get(base.name)
        opaque = (_Part(base.name, ZERO, shape[dim], ZERO),)
        with suppress(_Unordered):
            parts = whole.parts if whole is not None and whole.dim == dim else opaque
            self.wholes[node.name] = _Whole(dim, _replaced(parts, part))
        return node

    def _read(self, node: Node) -> Node:
        base = self.by_name[next(refs(node.args))]
        dim, begin = self._place(node, 1)
        if begin is None:
            return node
        selects = node.target == _SELECT
        if not selects and shape_of(node) == shape_of(base):
            return self._same(node, base)
        whole = self.wholes.get(base.name)
        if whole is None or whole.dim != dim:
            return node
        end = begin + (ONE if selects else shape_of(node)[dim])
        part = next((part for part in whole.parts if _holds(part, begin, end, shape_of(base)[dim])), None)
        if part is None:
            return node
        source = self.by_name[part.source]
        if part.offset is None:
            if selects:
                return self._same(node, source)
            return structs.replace(node, target="aten.unsqueeze.default", args=(Ref(name=source.name), dim), kwargs={})
        here = part.offset + begin - part.begin
        if selects:
            return structs.replace(node, args=(Ref(name=source.name), dim, size_argument(here)), kwargs={})
        if shape_of(source) == shape_of(node):
            return self._same(node, source)
        args = (Ref(name=source.name), dim, size_argument(here), size_argument(here + end - begin))
        return structs.replace(node, args=args, kwargs={})

    def _place(self, node: Node, first: int) -> tuple[int, Poly | None]:
        """The dimension and where it is read or written from; None where that is no number, or in steps."""
        selects = _SELECT in (node.target, _SCATTERS.get(node.target))
        names = ("dim", "index") if selects else ("dim", "start", "end", "step")
        given = dict(zip(names, node.args[first:], strict=False)) | {
            name: node.kwargs[name] for name in names if name in node.kwargs
        }
        shape = shape_of(self.by_name[next(refs(node.args))])
        dim, begin = given.get("dim", 0), given.get("index" if selects else "start") or 0
        if not isinstance(dim, int) or not isinstance(begin, int) or given.get("step", 1) != 1 or not shape:
            return 0, None
        dim %= len(shape)
        if begin >= 0:
            return dim, poly(begin)
        extent = shape[dim].constant
        return dim, None if extent is None or extent + begin < 0 else poly(extent + begin)

    def _same(self, node: Node, other: Node) -> Node:
        """``node`` is ``other``. An argument is copied: what is returned of one is what it was before it is written."""
        if other.op == "call":
            self.names[node.name] = other.name
            return node
        return structs.replace(node, target="aten.clone.default", args=(Ref(name=other.name),), kwargs={})

    def _concatenation(self, node: Node, whole: _Whole) -> Iterator[Node]:
        dim, meta = whole.dim, node.values[0]
        listed: list[Arg] = []
        args: tuple[Arg, ...]
        total = meta.example[dim] if meta.example else 0
        for place, part in enumerate(whole.parts):
            source = self.by_name[part.source]
            size = part.end - part.begin
            name, target, args = source.name, "", (Ref(name=source.name), dim)
            if part.offset is None:
                target = "aten.unsqueeze.default"
            elif shape_of(source)[dim] != size:
                target, args = _SLICE, (*args, size_argument(part.offset), size_argument(part.offset + size))
            if target:
                name = f"{node.name}_part{place}"
                # What has a size that is no number stands last, or nearly.
                length = size.constant if size.constant is not None else total - (part.begin.constant or 0)
                yield Node(name=name, op="call", target=target, args=args, values=(resized(meta, dim, size, length),))
            listed.append(Ref(name=name))
        args = (Items(items=tuple(listed)), dim)
        yield structs.replace(node, target="aten.cat.default", args=args, kwargs={})


def _form(node: Node) -> tuple[object, str]:
    return node.values[0].shape, node.values[0].dtype


class _Unordered(Exception):
    """Two places of which nobody can say which comes first."""


def _replaced(parts: tuple[_Part, ...], new: _Part) -> tuple[_Part, ...]:
    """``parts`` with ``new`` where it stands."""
    before: list[_Part] = []
    behind: list[_Part] = []
    total = parts[-1].end
    for part in parts:
        if _at_most(part.end, new.begin, total):
            before.append(part)
        elif _at_most(new.end, part.begin, total):
            behind.append(part)
        else:
            if not _at_most(new.begin, part.begin, total):
                before.append(replace(part, end=new.begin))
            if not _at_most(part.end, new.end, total):
                offset = None if part.offset is None else part.offset + new.end - part.begin
                behind.append(replace(part, begin=new.end, offset=offset))
    return (*before, new, *behind)


def _holds(part: _Part, begin: Poly, end: Poly, total: Poly) -> bool:
    """Whether everything from ``begin`` to ``end`` stands in ``part``."""
    try:
        return _at_most(part.begin, begin, total) and _at_most(end, part.end, total)
    except _Unordered:
        return False


def _at_most(first: Poly, second: Poly, total: Poly) -> bool:
    """Whether ``first <= second``, for places in a dimension of ``total`` elements. Where the total is a symbol, what
    ends there may turn out to be empty."""
    if total in (first, second):
        return second == total
    gap = (second - first).constant
    if gap is None:
        raise _Unordered
    return gap >= 0
