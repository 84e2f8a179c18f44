"""What a step of a recurrence may contain beside elementwise operators: sums over dimensions, and products of a row.

Products of what a step keeps are spelled as multiplications and sums, for one kernel to take all steps. Products that
no state goes into are one product for all steps, ahead of them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import structs

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Items, Node, Ref, TensorMeta
from ..ir.poly import product
from .calls import call, dims_argument
from .pointwise import base_name, is_pointwise
from .renaming import renamed
from .views import RESHAPES, VIEWS, shape_of, size_argument

STEP_SUM = "ks.step_sum"
"""``sum.dim_IntList`` inside a step: its kernel makes it, and nothing else does."""

_LARGEST_WEIGHT = 1 << 16
"""Elements of a matrix that each step is multiplied with: it is read anew in every step, so a cache must hold it."""
_MOST_TIMES = 1 << 19
"""Multiplications with it in a step, up to which the kernel is faster than a library, which takes all rows together: a
RNN of 256 took 3.3 ms for 16 steps of 32 rows, PyTorch 3.1 (one thread)."""
_SUMS = ("aten.sum.dim_IntList",)
_PRODUCTS = ("aten.mm.default", "aten.bmm.default")


@dataclass
class Spelled:
    """A step in nodes of its own."""

    before: list[Node] = field(default_factory=list)
    """What is computed once for all steps."""
    own: list[Node] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """The new nodes by the names of those that they stand for."""
    moving: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """By new view and place of an argument: its value in the second step, and how far it moves in a step."""


def is_sum(node: Node) -> bool:
    """Whether the node sums."""
    return node.target in (*_SUMS, *_PRODUCTS)


def may_sum(node: Node) -> bool:
    """Whether a step with sums may hold the node; what computes in half precision is left to PyTorch."""
    name = base_name(node.target)
    fits = bool(node.values) and all(meta.dtype in ("float32", "float64") for meta in node.values)
    is_part = name in ("split", "split_with_sizes", "unbind") or node.target == "operator.getitem"
    return fits and not node.kwargs.get("dtype") and (is_sum(node) or is_part)


def selected(node: Node, nodes: Mapping[str, Node]) -> Node:
    """An element of ``unbind`` as the selection that it is: its place may move with the steps."""
    if node.target != "operator.getitem" or not isinstance(node.args[0], Ref):
        return node
    whole = nodes[node.args[0].name]
    if whole.target != "aten.unbind.int":
        return node
    dim = whole.args[1] if len(whole.args) > 1 else whole.kwargs.get("dim", 0)
    return structs.replace(node, target="aten.select.int", args=(whole.args[0], dim, node.args[1]))


def spelled(
    own: list[Node],
    nodes: Mapping[str, Node],
    held: Mapping[str, str],
    moving: Mapping[tuple[str, int], list[int]],
    prefix: str,
) -> Spelled | None:
    """The step ``own`` in nodes whose names begin with ``prefix``; None if it holds what no kernel takes.

    Args:
        own: its nodes.
        nodes: all nodes of the graph.
        held: names of its states before it, by what stands for them there.
        moving: as :attr:`Spelled.moving`, of the nodes as they are.
        prefix: of new names.
    """
    return _Spelling({node.name: node for node in own}, nodes, held, moving, prefix).spelled()


class _Spelling:
    def __init__(
        self,
        own: dict[str, Node],
        nodes: Mapping[str, Node],
        held: Mapping[str, str],
        moving: Mapping[tuple[str, int], list[int]],
        prefix: str,
    ) -> None:
        self.own, self.nodes, self.held, self.moving, self.prefix = own, nodes, held, moving, prefix
        self.result = Spelled(names=dict(held))
        self.dependent = set(held)
        for node in own.values():
            if not self.dependent.isdisjoint(operands(node)):
                self.dependent.add(node.name)

    def spelled(self) -> Spelled | None:
        result = self.result
        for node in self.own.values():
            if node.target in _PRODUCTS:
                if not (self._product(node) or self._is_hoisted(node)):
                    return None
                continue
            new = self._add(node, node.target, node.args, node.values[0])
            if node.target in _SUMS:
                result.own[-1] = structs.replace(new, target=STEP_SUM)
            if len(node.values) > 1:
                result.own[-1] = structs.replace(new, values=node.values)
            for (view, place), (value, stride) in self.moving.items():
                if view == node.name:
                    result.moving[new.name, place] = value, stride
        return result

    def _add(self, node: Node, target: str, args: tuple[Arg, ...], meta: TensorMeta, suffix: str = "") -> Node:
        """A new node of the step, which stands for ``node`` if it has no suffix."""
        name = f"{self.prefix}{node.name}{suffix}"
        kwargs = node.kwargs if target == node.target else {}
        made = call(name, target, args, meta, **kwargs)
        self.result.own.append(renamed(made, self.result.names))
        if not suffix:
            self.result.names[node.name] = name
        return self.result.own[-1]

    def _product(self, node: Node) -> bool:
        """A product of a row, or with a fixed matrix, as multiplications and a sum."""
        left, right = (self.nodes[name] for name in operands(node))
        a, b = left.values[0], right.values[0]
        *batch, rows, length = a.example
        columns = b.example[-1]
        is_row = 1 in (rows, columns) or a.shape[-1] == 1
        if node.name not in self.dependent and not (is_row and batch):
            return False
        fixed = [side.values[0].example for side in (left, right) if side.name not in self.dependent]
        has_weight = not batch and any(math.prod(weight) <= _LARGEST_WEIGHT for weight in fixed)
        if not (is_row or has_weight) or max(rows * length, length * columns) > _LARGEST_WEIGHT:
            return False
        if has_weight and rows * length * columns > _MOST_TIMES:
            return False
        one = len(a.shape)
        wide_left = _resized(a, (*a.shape, 1), (*a.example, 1))
        at = one - 2
        wide_right = _resized(b, (*b.shape[:at], 1, *b.shape[at:]), (*b.example[:at], 1, *b.example[at:]))
        shape, example = (*a.shape, b.shape[-1]), (*a.example, columns)
        x = self._add(node, "aten.unsqueeze.default", (Ref(name=left.name), one), wide_left, "_left")
        y = self._add(node, "aten.unsqueeze.default", (Ref(name=right.name), at), wide_right, "_right")
        factors = (Ref(name=x.name), Ref(name=y.name))
        full = _resized(node.values[0], shape, example)
        times = self._add(node, "aten.mul.Tensor", factors, full, "_times")
        self._add(node, STEP_SUM, (Ref(name=times.name), Items(items=(one - 1,))), node.values[0])
        return True

    def _is_hoisted(self, node: Node) -> bool:
        """A product of a place in time, which moves with the steps, and a fixed matrix: one product for all places."""
        if node.name in self.dependent or node.target != "aten.mm.default":
            return False
        left, right = (self.nodes[name] for name in operands(node))
        place = left
        while place.name in self.own and base_name(place.target) in RESHAPES:
            place = self.nodes[next(refs(place.args))]
        if place.name not in self.own or place.target not in ("aten.select.int", "aten.slice.Tensor"):
            return False
        whole = self.nodes[next(refs(place.args))]
        source, weight = self._outside(whole), self._outside(right)
        meta = whole.values[0]
        dim = place.args[1]
        assert isinstance(dim, int)
        dim %= len(meta.shape)
        same = {left.values[0].shape[-1], place.values[0].shape[-1], meta.shape[-1]}
        if source is None or weight is None or dim == len(meta.shape) - 1 or len(same) > 1:
            return False
        name, width = f"{self.prefix}{node.name}", right.values[0].shape[-1]
        example = right.values[0].example[-1]
        rows = size_argument(product(shape_of(whole)[:-1]))
        count = rows if isinstance(rows, int) else rows.value  # type: ignore[union-attr]
        many = math.prod(meta.example[:-1])
        flat = _resized(meta, (count, meta.shape[-1]), (many, meta.example[-1]))
        total = _resized(meta, (count, width), (many, example))
        shaped = _resized(meta, (*meta.shape[:-1], width), (*meta.example[:-1], example))
        self.result.before += [
            _view(f"{name}_rows", source, flat),
            Node(
                name=f"{name}_all",
                op="call",
                target="aten.mm.default",
                args=(Ref(name=f"{name}_rows"), Ref(name=weight)),
                values=(total,),
            ),
            _view(f"{name}_shaped", f"{name}_all", shaped),
        ]
        at = place.values[0]
        picked = _resized(at, (*at.shape[:-1], width), (*at.example[:-1], example))
        step = self._add(node, place.target, (Ref(name=f"{name}_shaped"), *place.args[1:]), picked, "_step")
        for (view, argument), (value, stride) in self.moving.items():
            if view == place.name:
                self.result.moving[step.name, argument] = value, stride
        sizes = Items(items=tuple(map(size_argument, shape_of(node))))
        self._add(node, "aten.view.default", (Ref(name=step.name), sizes), node.values[0])
        return True

    def _outside(self, node: Node) -> str | None:
        """The name of ``node``, or of a copy of it outside of the step; None if it moves."""
        if node.name not in self.own:
            return node.name
        if any(view == node.name for view, _ in self.moving) or not (
            base_name(node.target) in VIEWS or is_pointwise(node.target)
        ):
            return None
        names = {}
        for name in operands(node):
            copy = self._outside(self.nodes[name])
            if copy is None:
                return None
            names[name] = copy
        made = structs.replace(renamed(node, names), name=f"{self.prefix}{node.name}_fixed")
        if all(other.name != made.name for other in self.result.before):
            self.result.before.append(made)
        return made.name


def _resized(meta: TensorMeta, shape: tuple[int | str, ...], example: tuple[int, ...]) -> TensorMeta:
    return structs.replace(meta, shape=shape, example=example, strides=())


def _view(name: str, source: str, meta: TensorMeta) -> Node:
    return call(name, "aten.reshape.default", (Ref(name=source), dims_argument(meta.shape)), meta)
