"""Rewrites ``topk`` with a small k as reductions, and the operators on its results place by place.

A library sorts rows in a call of its own. Keys of 64 bits, the order of the value in front of the place, are all
different: their maximum is the first pick, the maximum of what is smaller the next. Sums over picks, and writes where
they lie, become values of the row, so that a router's softmax, picks and weights are one kernel.
"""

from collections.abc import Callable

from msgspec import structs

from ...hardware.machine.work import refs
from ...schemas import Arg, Items, Node, Ref, TensorMeta
from ..ir.poly import ONE, poly
from .calls import call
from .pointwise import ORDERED, UNORDERED, is_pointwise
from .views import resized, shape_of, size_argument, squeezed

MOST_PICKS = 8
"""Picks from which on a library's partial sort is the better one: each is a pass over the row."""
_LEAST = -(1 << 63)
_PLACES = (1 << 32) - 1
_JOINED = {
    "aten.sum.dim_IntList": "aten.add.Tensor",
    "aten.mean.dim": "aten.add.Tensor",
    "aten.amax.default": "aten.maximum.default",
    "aten.amin.default": "aten.minimum.default",
}
_SCATTERS = ("aten.scatter.src", "aten.scatter.value", "aten.scatter_add.default")


def picked(nodes: list[Node]) -> list[Node]:
    """The same nodes with ``topk`` of few values, and what follows from these, taken apart."""
    return _Picks(nodes).nodes() if any(node.target == "aten.topk.default" for node in nodes) else nodes


class _Picks:
    def __init__(self, nodes: list[Node]) -> None:
        self.given = nodes
        self.by_name = {node.name: node for node in nodes}
        self.made: list[Node] = []
        self.parts: dict[str, list[Node]] = {}
        """What stands at every place of a tensor's last dimension, each a tensor with one place."""
        self.picks: dict[str, tuple[list[Node], list[Node]]] = {}
        """Values and places, by ``topk``."""
        self.places_of: dict[str, Node] = {}
        """What places are places of."""

    def nodes(self) -> list[Node]:
        """Every node; what was taken apart is put together again for whoever reads all of it."""
        for node in self.given:
            parts = self._parts(node)
            if isinstance(parts, Node):
                self.made.append(structs.replace(parts, name=node.name))
            elif parts is not None:
                self.parts[node.name] = parts
                listed = Items(items=tuple(Ref(name=part.name) for part in parts))
                dim = len(node.values[0].shape) - 1
                self.made.append(
                    structs.replace(node, op="call", target="aten.cat.default", args=(listed, dim), kwargs={})
                )
            elif node.name not in self.picks:
                self.made.append(node)
        return self.made

    def _call(self, name: str, target: str, args: tuple[Arg, ...], meta: TensorMeta) -> Node:
        self.made.append(call(name, target, args, structs.replace(meta, strides=())))
        self.by_name[name] = self.made[-1]
        return self.made[-1]

    def _parts(self, node: Node) -> list[Node] | Node | None:
        """The node's parts, or another node that takes its place; None: it stays as it is."""
        if node.target == "aten.topk.default":
            self._pick(node)
            return None
        read = [name for name in refs(node.args) if name in self.parts]
        if node.target == "operator.getitem" and (base := next(refs(node.args))) in self.picks:
            item = node.args[1]
            assert isinstance(item, int)
            if item:
                self.places_of[node.name] = self.by_name[next(refs(self.by_name[base].args))]
            return self.picks[base][item]
        if not read or len(node.values) != 1 or any(True for _ in refs(node.kwargs.values())):
            return None
        if is_pointwise(node.target):
            return self._pointwise(node, max(len(self.parts[name]) for name in read))
        rule: Callable[[_Picks, Node], list[Node] | Node | None] | None = _FOLLOWING.get(node.target)
        return rule(self, node) if rule is not None else None

    def _pick(self, node: Node) -> None:
        source = self.by_name[next(refs(node.args))]
        meta, shape = source.values[0], shape_of(source)
        defaults: tuple[Arg, ...] = (-1, True, True)
        count, dim, largest, in_order = (*node.args[1:], *defaults[len(node.args) - 2 :])
        last = isinstance(dim, int) and dim % max(len(shape), 1) == len(shape) - 1
        if not isinstance(count, int) or not 0 < count <= MOST_PICKS or not last or not in_order or node.kwargs:
            return  # Without order, PyTorch's picks have one of their own.
        if meta.dtype not in ("float32", "bfloat16", "float16") or shape[-1] == ONE or not squeezed(shape[:-1]):
            return
        name, whole = node.name, structs.replace(meta, dtype="int64")
        mask, one = structs.replace(meta, dtype="bool"), resized(whole, len(shape) - 1, ONE, 1)
        line = TensorMeta(shape=meta.shape[-1:], dtype="int64", example=meta.example[-1:])
        number = TensorMeta(shape=(), dtype="int64", example=())
        place = self._call(f"{name}_line", "aten.arange.default", (size_argument(shape[-1]),), line)
        order = self._call(f"{name}_order", ORDERED, (Ref(name=source.name),), whole)
        if not largest:
            order = self._call(f"{name}_reverse", "aten.bitwise_not.default", (Ref(name=order.name),), whole)
        wide = self._call(f"{name}_wide", "aten.mul.Tensor", (Ref(name=order.name), _PLACES + 1), whole)
        key = self._call(f"{name}_key", "aten.sub.Tensor", (Ref(name=wide.name), Ref(name=place.name)), whole)
        least = self._call(f"{name}_least", "aten.scalar_tensor.default", (_LEAST,), number)
        values, places, rest = [], [], key
        for pick in range(count):
            at = f"{name}_pick{pick}"
            best = self._call(f"{at}_best", "aten.amax.default", (Ref(name=rest.name), Items(items=(-1,)), True), one)
            less = self._call(f"{at}_less", "aten.lt.Tensor", (Ref(name=key.name), Ref(name=best.name)), mask)
            args = (Ref(name=less.name), Ref(name=key.name), Ref(name=least.name))
            rest = self._call(f"{at}_rest", "aten.where.self", args, whole)
            back = self._call(f"{at}_back", "aten.neg.default", (Ref(name=best.name),), one)
            where = self._call(f"{at}_place", "aten.bitwise_and.Scalar", (Ref(name=back.name), _PLACES), one)
            high = self._call(f"{at}_high", "aten.add.Tensor", (Ref(name=best.name), Ref(name=where.name)), one)
            order = self._call(f"{at}_order", "aten.bitwise_right_shift.Tensor_Scalar", (Ref(name=high.name), 32), one)
            if not largest:
                order = self._call(f"{at}_reverse", "aten.bitwise_not.default", (Ref(name=order.name),), one)
            value = structs.replace(one, dtype=meta.dtype)
            values.append(self._call(f"{at}_value", UNORDERED, (Ref(name=order.name),), value))
            places.append(where)
        self.picks[name] = values, places

    def _pointwise(self, node: Node, count: int) -> list[Node] | None:
        shape = shape_of(node)
        if shape[-1] != poly(count):
            return None
        return [
            self._call(
                f"{node.name}_at{place}",
                node.target,
                tuple(self._at(node, number, arg, place, count) for number, arg in enumerate(node.args)),
                resized(node.values[0], len(shape) - 1, ONE, 1),
            )
            for place in range(count)
        ]

    def _at(self, node: Node, number: int, arg: Arg, place: int, count: int) -> Arg:
        """An operand at one of the places."""
        if not isinstance(arg, Ref):
            return arg
        if arg.name in self.parts:
            return Ref(name=self.parts[arg.name][place % len(self.parts[arg.name])].name)
        source = self.by_name[arg.name]
        shape = shape_of(source)
        if not shape or shape[-1] == ONE:
            return arg
        dim = len(shape) - 1
        name = f"{node.name}_at{place}_from{number}"
        args = (arg, dim, place, place + 1)
        return Ref(name=self._call(name, "aten.slice.Tensor", args, resized(source.values[0], dim, ONE, 1)).name)

    def _reduced(self, node: Node) -> Node | None:
        """A reduction over the places: of the values one after the other."""
        parts, source = self.parts[next(refs(node.args))], self.by_name[next(refs(node.args))]
        rank = len(source.values[0].shape)
        dims = node.args[1] if len(node.args) > 1 else None
        over = [dim % rank for dim in dims.items if isinstance(dim, int)] if isinstance(dims, Items) else []
        if over != [rank - 1] or node.kwargs or node.values[0].dtype != source.values[0].dtype:
            return None
        total, meta = parts[0], parts[0].values[0]
        for place, part in enumerate(parts[1:], 1):
            args = (Ref(name=total.name), Ref(name=part.name))
            total = self._call(f"{node.name}_at{place}", _JOINED[node.target], args, meta)
        if node.target == "aten.mean.dim":
            total = self._call(f"{node.name}_mean", "aten.div.Tensor", (Ref(name=total.name), len(parts)), meta)
        if len(node.args) > 2 and node.args[2]:
            return call(node.name, "aten.clone.default", (Ref(name=total.name),), node.values[0])
        return call(node.name, "aten.squeeze.dim", (Ref(name=total.name), rank - 1), node.values[0])

    def _scattered(self, node: Node) -> Node | None:
        """Values written where the picks lie: places are compared with them."""
        base, dim, index, value, *_ = node.args
        if not isinstance(base, Ref) or not isinstance(index, Ref) or not isinstance(dim, int):
            return None
        origin, shape = self.places_of.get(index.name), shape_of(node)
        if origin is None or node.kwargs or dim % len(shape) != len(shape) - 1 or shape_of(origin) != shape:
            return None
        places, meta, name = self.parts[index.name], node.values[0], node.name
        mask = structs.replace(meta, dtype="bool")
        line = TensorMeta(shape=meta.shape[-1:], dtype="int64", example=meta.example[-1:])
        here = self._call(f"{name}_line", "aten.arange.default", (size_argument(shape[-1]),), line)
        number = TensorMeta(shape=(), dtype=meta.dtype, example=())
        if not isinstance(value, Ref):
            value = Ref(name=self._call(f"{name}_value", "aten.scalar_tensor.default", (value,), number).name)
        result = self.by_name[base.name]
        for place, where in enumerate(places):
            match = self._call(
                f"{name}_at{place}_here", "aten.eq.Tensor", (Ref(name=here.name), Ref(name=where.name)), mask
            )
            new = value if value.name == f"{name}_value" else self._at(node, 3, value, place, len(places))
            old: Arg = Ref(name=result.name)
            if node.target == "aten.scatter_add.default":
                new = Ref(name=self._call(f"{name}_at{place}_sum", "aten.add.Tensor", (old, new), meta).name)
            result = self._call(f"{name}_at{place}_to", "aten.where.self", (Ref(name=match.name), new, old), meta)
        return call(name, "aten.clone.default", (Ref(name=result.name),), meta)

    def _gathered(self, node: Node) -> list[Node] | None:
        """Other values at the places of the picks."""
        source, dim, index, *_ = node.args
        rank = len(node.values[0].shape)
        if not isinstance(index, Ref) or index.name not in self.parts or not isinstance(dim, int):
            return None
        if dim % rank != rank - 1 or node.kwargs:
            return None
        meta = resized(node.values[0], rank - 1, ONE, 1)
        return [
            self._call(f"{node.name}_at{place}", node.target, (source, dim, Ref(name=where.name)), meta)
            for place, where in enumerate(self.parts[index.name])
        ]

    def _selected(self, node: Node) -> Node | None:
        """One of the places."""
        source, dim, place = node.args
        parts, rank = self.parts[next(refs((source,)))], len(node.values[0].shape) + 1
        if not isinstance(dim, int) or not isinstance(place, int) or dim % rank != rank - 1:
            return None
        return call(node.name, "aten.squeeze.dim", (Ref(name=parts[place].name), rank - 1), node.values[0])

    def _sliced(self, node: Node) -> list[Node] | None:
        """Some of the places."""
        parts, rank = self.parts[next(refs(node.args))], len(node.values[0].shape)
        defaults: tuple[Arg, ...] = (0, None, None, 1)
        dim, begin, end, step = (*node.args[1:], *defaults[len(node.args) - 1 :])
        if not isinstance(dim, int) or dim % rank != rank - 1 or step != 1:
            return None
        if not isinstance(begin, int | None) or not isinstance(end, int | None):
            return None
        return parts[begin:end] or None


_FOLLOWING = {
    **dict.fromkeys(_JOINED, _Picks._reduced),
    **dict.fromkeys(_SCATTERS, _Picks._scattered),
    "aten.gather.default": _Picks._gathered,
    "aten.select.int": _Picks._selected,
    "aten.slice.Tensor": _Picks._sliced,
}
