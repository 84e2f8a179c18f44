"""Indices that are tensors of one integer, as in ``cache[:, :, position]``: traced as views, kept as indices.

PyTorch reads such an index as a Python number. Traced, it is a number that only the call knows, and a view at it, which
later writes see; once there are values alone, no view and no number is needed any more.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest import mock

from msgspec import structs

from ...schemas import Arg, Expr, Graph, Items, Node, Ref, TensorMeta
from ..machine.work import operands
from ..sources.tensor_indices import selected

_READ = "aten._local_scalar_dense.default"
_NUMBERS = re.compile(r"\bu\d+\b")
"""What torch calls those that only the call knows."""
_KINDS = ("int64", "int32")
"""What PyTorch takes as indices."""


@contextmanager
def views_at_positions() -> Iterator[None]:
    """While this is open, indexing takes numbers that are not known yet out of tensors of one integer."""
    import torch

    kind = torch.Tensor
    plain_get, plain_put = kind.__getitem__, kind.__setitem__

    @wraps(plain_get)
    def get(tensor: Any, index: Any) -> Any:
        view, rest = selected(tensor, index, _view)
        return plain_get(view, rest) if view is tensor or rest else view

    @wraps(plain_put)
    def put(tensor: Any, index: Any, value: Any) -> None:
        view, rest = selected(tensor, index, _view)
        plain_put(view, rest if view is tensor or rest else Ellipsis, value)

    with mock.patch.object(kind, "__getitem__", get), mock.patch.object(kind, "__setitem__", put):
        yield


def _view(tensor: Any, dim: int, position: Any) -> Any:
    return tensor.select(dim, position.item())


def as_indices(graph: Graph) -> Graph:
    """``graph`` with selections at a position as indices, which kernels read where they lie: no call waits for them."""
    by_name = {node.name: node for node in graph.nodes}
    read = {node.expr: node.args[0] for node in graph.nodes if node.target == _READ and node.expr}
    positions = {
        name: arg for name, arg in read.items()
        if isinstance(arg, Ref) and _meta(by_name[arg.name]).dtype in _KINDS and not _meta(by_name[arg.name]).shape
    }  # fmt: skip
    nodes = [part for node in graph.nodes for part in _indexed(node, positions, by_name)]
    if len(nodes) == len(graph.nodes):
        return graph
    return structs.replace(graph, nodes=tuple(_used(nodes)))


def _indexed(node: Node, positions: Mapping[str, Ref], nodes: Mapping[str, Node]) -> list[Node]:
    """The last node has the name of ``node``."""
    at = node.args[-1] if node.target in ("aten.select.int", "aten.select_scatter.default") else None
    if not isinstance(at, Expr) or at.value not in positions or not isinstance(node.args[0], Ref):
        return [node]
    position, whole = positions[at.value], node.args[0]
    meta = _meta(nodes[whole.name])
    dim = int(node.args[-2]) % len(meta.shape)  # type: ignore[arg-type]
    place = f"{node.name}_place"
    numbers = TensorMeta(shape=(1,), dtype=_meta(nodes[position.name]).dtype, example=(1,))
    index = Items(items=(*dim * (None,), Ref(name=place)))
    part = structs.replace(
        meta,
        shape=(*meta.shape[:dim], 1, *meta.shape[dim + 1 :]),
        example=(*meta.example[:dim], 1, *meta.example[dim + 1 :]),
        strides=(),
    )
    made = [_call(place, "aten.view.default", (position, Items(items=(1,))), numbers)]
    if node.target == "aten.select.int":
        made.append(_call(f"{node.name}_row", "aten.index.Tensor", (whole, index), part))
        squeeze = (Ref(name=made[-1].name), Items(items=(dim,)))
        return [*made, structs.replace(node, target="aten.squeeze.dims", args=squeeze)]
    made.append(_call(f"{node.name}_row", "aten.unsqueeze.default", (_copied(node.args[1], nodes), dim), part))
    return [*made, structs.replace(node, target="aten.index_put.default", args=(whole, index, Ref(name=made[-1].name)))]


def _copied(value: Arg, nodes: Mapping[str, Node]) -> Arg:
    """What is copied, where ``value`` is a copy of it into memory of its own shape and type."""
    node = nodes[value.name] if isinstance(value, Ref) else None
    if node is None or node.target != "aten.copy.default" or not isinstance(node.args[1], Ref):
        return value
    given, made = _meta(nodes[node.args[1].name]), _meta(node)
    return node.args[1] if (given.shape, given.dtype) == (made.shape, made.dtype) else value


def _used(nodes: Sequence[Node]) -> list[Node]:
    """Without calls that nothing reads any more."""
    kept: list[Node] = []
    names, numbers = set[str](), set[str]()
    for node in reversed(nodes):
        if node.op == "call" and node.name not in names and node.expr not in numbers:
            continue
        if node.op != "size":
            numbers.update(_NUMBERS.findall(f"{node.args} {node.kwargs} {node.values}"))
        names.update(operands(node))
        kept.append(node)
    return kept[::-1]


def _call(name: str, target: str, args: tuple[Arg, ...], meta: TensorMeta) -> Node:
    return Node(name=name, op="call", target=target, args=args, values=(meta,))


def _meta(node: Node) -> TensorMeta:
    return node.values[0]
