"""Writes into a part of an input in the input's own memory, as the reference writes: one row of a cache, no copy of it.

Captured, ``cache[0, :, pos] = row`` is a ``select_scatter`` into a ``select`` of the cache, and another one of that
into the cache: copies of half of it and of all of it, which is written back at the end. Where nothing else reads what
the cache was before, PyTorch writes the row where it belongs.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import structs

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Expr, Node, Ref
from .calls import call, with_dtype
from .views import VIEWS

WRITTEN = "ks.written"
"""Its first argument after a call that writes into it. The second is the operator called, others are its arguments."""

_PARTS = {"aten.select_scatter.default": "aten.select.int", "aten.slice_scatter.default": "aten.slice.Tensor"}
"""The view of the part that each writes."""
_COPY = "aten.copy_.default"
_WHOLE = {
    "aten.copy.default": _COPY,
    "aten.index_copy.default": "aten.index_copy_.default",
    "aten.index_put.default": "aten.index_put_.default",
}
"""What is written into a part at last, and the operator that does."""
_LEAST_KEPT = 1 << 16
"""Elements that must stay as they are for a call of PyTorch to pay where all places are numbers: a kernel that writes
fewer of them again, together with the new ones, takes less time than the call."""

_Part = tuple[str, tuple[Arg, ...], Node]
"""A view: its operator, the arguments behind the first, and a node with its shape."""


def written_inside(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The same nodes with every new value of an input, where only a part of it is new, written into the input.

    Such a write changes nothing when it is done again, so that the operator may be computed anew after it: it stores
    what does not depend on what was there.
    """
    writing = _Writing(nodes)
    for holder, value in nodes[-1].kwargs.items():
        if isinstance(value, Ref):
            writing.visit(writing.by_name[holder], writing.by_name[value.name])
    return tuple(new for node in nodes for new in writing.made.get(node.name, [node]))


class _Writing:
    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.by_name = {node.name: node for node in nodes}
        self.output = nodes[-1]
        self.made: dict[str, list[Node]] = {}
        """What stands for a node, by its name."""
        self.users: dict[str, set[str]] = defaultdict(set)
        for node in nodes:
            for name in operands(node):
                self.users[name].add(node.name)

    def visit(self, holder: Node, last: Node) -> None:
        """Rewrite ``last``, the new value of ``holder``, if it is the old one with a new part."""
        parts: list[_Part] = []
        """From the holder inwards."""
        chain, write = {last.name}, last
        while True:
            views = self._views(holder, write)
            if views is None or list(self._places(views)) != [place[:2] for place in parts]:
                return
            chain.update(view.name for view in views)
            if write.target not in _PARTS:
                operator, given = _WHOLE[write.target], write.args[1:]
                break
            source = self.by_name[next(refs(write.args[1:2]))]
            if source.values[0].shape != write.values[0].shape:
                parts.append((_PARTS[write.target], _place(write, 2), source))
            if self._views(holder, source) is None:
                operator, given = _COPY, (Ref(name=source.name),)
                break
            write = source
            chain.add(write.name)
        if (operator == _COPY and not self._pays(holder, parts)) or not self._is_alone(holder, last, chain):
            return
        nodes, part = [], holder.name
        for place, (target, args, shown) in enumerate(parts):
            name = f"{last.name}_part{place}"
            meta = with_dtype(shown.values[0], holder.values[0].dtype)
            nodes.append(call(name, target, (Ref(name=part), *args), meta))
            part = name
        args = (Ref(name=holder.name), operator, Ref(name=part), *given)
        self.made |= {name: [] for name in chain}
        self.made[last.name] = [*nodes, structs.replace(last, target=WRITTEN, args=args, kwargs={})]

    def _pays(self, holder: Node, parts: Sequence[_Part]) -> bool:
        """Whether a call of PyTorch is better than a kernel that writes all of it, or there is no such kernel."""
        if not parts or any(isinstance(place[1], Expr) for _, place, _ in parts):
            return bool(parts)
        new = math.prod(parts[-1][2].values[0].example)
        return math.prod(holder.values[0].example) - new >= max(new, _LEAST_KEPT)

    def _views(self, holder: Node, write: Node) -> list[Node] | None:
        """The views of ``holder``, outermost first, into the last of which a node writes; None if it does not."""
        is_added = write.target == "aten.index_put.default" and len(write.args) > 3 and write.args[3] is not False
        if write.target not in _PARTS | _WHOLE or is_added or write.kwargs:
            return None
        views: list[Node] = []
        name = next(refs(write.args[:1]))
        while name != holder.name:
            view = self.by_name[name]
            if view.target not in _PARTS.values() or view.kwargs:
                return None
            views.insert(0, view)
            name = next(refs(view.args))
        return views

    def _places(self, views: list[Node]) -> Iterator[tuple[str, tuple[Arg, ...]]]:
        for view in views:
            if view.values[0].shape != self.by_name[next(refs(view.args))].values[0].shape:
                yield view.target, _place(view, 1)

    def _is_alone(self, holder: Node, last: Node, chain: set[str]) -> bool:
        """Whether nothing but the ``chain`` of writes reads what the holder was, and no result is their memory."""
        output = self.output
        readers = {user for name in {holder.name, *chain} - {last.name} for user in self.users[name]} - chain
        sizes = {user for user in self.users[holder.name] if self.by_name[user].op == "size"}
        shown = {self._base(name) for name in refs(output.args)}
        is_kept = holder.name not in {self._base(name) for name in refs(output.kwargs.values())}
        views = {name for name in refs(output.args) if name != holder.name and self._base(name) == holder.name}
        return readers <= sizes | {output.name} and last.name not in shown and not views and is_kept

    def _base(self, name: str) -> str:
        node = self.by_name[name]
        while node.op == "call" and node.target.split(".")[1] in VIEWS:
            node = self.by_name[next(refs(node.args))]
        return node.name


def _place(node: Node, first: int) -> tuple[Arg, ...]:
    """The arguments that say which part it is, with those that need not be given."""
    place = node.args[first:]
    defaults: tuple[Arg, ...] = (0,) if node.target.startswith("aten.sel") else (0, None, None, 1)
    return (*place, *defaults[len(place) :])


def is_inside(node: Node, holder: str) -> bool:
    """Whether a node is the input ``holder`` itself, with a new part."""
    return node.target == WRITTEN and node.args[0] == Ref(name=holder)
