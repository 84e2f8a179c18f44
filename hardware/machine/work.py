"""Counts what an operator must do at least, from its captured graph. Pure: no torch, no measuring."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from ...schemas import Arg, Graph, Items, Node, Ref, TensorMeta, Work

_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1, "complex64": 8, "complex128": 16,
}  # fmt: skip

# Tables: the first argument is read only where an index points. A part that no index names need not be read.
_TABLE_READS = {"aten.index.Tensor", "aten.index_select.default", "aten.gather.default", "aten.embedding.default"}
_PARTIAL_VIEWS = {"aten.slice.Tensor", "aten.select.int", "aten.split_with_sizes.default"}
_VIEWS = _PARTIAL_VIEWS | {
    "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.expand.default",
    "aten.permute.default", "aten.transpose.int", "aten.t.default", "aten.unsqueeze.default", "aten.squeeze.dim",
    "aten.squeeze.dims", "aten.squeeze.default", "aten.alias.default", "aten.detach.default", "operator.getitem",
    "aten.clone.default", "aten.full.default", "aten.full_like.default", "aten.empty.memory_format",
}  # fmt: skip

_PART_WRITES = {
    "aten.select_scatter.default": 1, "aten.slice_scatter.default": 1, "aten.index_copy.default": 3,
    "aten.index_put.default": 2,
}  # fmt: skip
"""Operators that leave most of their first argument as it is, and which argument is what they write."""

_RECURRENT = {"aten.lstm.input", "aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input"}


def count_work(graph: Graph) -> Work:
    """Bytes and operations of the operator at the main shape.

    - read: every input and parameter once, but a table that is only indexed counts at most the bytes gathered from it,
      and an input that is only sliced counts at most the bytes of its slices; what a write into a part of an input
      leaves as it is is not read;
    - write: every output, and what is new in an input or a parameter, once; an output that is a view of an input
      costs nothing;
    - operations: 2·m·n·k of products and convolutions, one for each element of the larger of result and first operand
      otherwise; views are free. A value whose size depends on the data counts with its largest known operand.
    """
    users = _users(graph)
    read = sum(_read_bytes(n, users) for n in graph.nodes if n.op in ("input", "param") and n.values)
    by_name = {n.name: n for n in graph.nodes}
    flops = sum(flops_of(n, by_name) for n in graph.nodes if n.op == "call")
    return Work(read_bytes=read, write_bytes=_write_bytes(graph, by_name), flops=flops)


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element; 4 for a dtype that is not known here."""
    return _BYTES.get(dtype, 4)


def refs(args: Iterable[Arg]) -> Iterator[str]:
    """Names of all nodes that arguments refer to, in order, lists included."""
    for arg in args:
        if isinstance(arg, Ref):
            yield arg.name
        elif isinstance(arg, Items):
            yield from refs(arg.items)


def operands(node: Node) -> Iterator[str]:
    """Names of all nodes that ``node`` refers to, in order."""
    return refs((*node.args, *node.kwargs.values()))


def uses(nodes: Iterable[Node]) -> Counter[str]:
    """How often nodes refer to each of them."""
    return Counter(name for node in nodes for name in operands(node))


def _users(graph: Graph) -> dict[str, list[Node]]:
    users: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in dict.fromkeys(operands(node)):
            users.setdefault(name, []).append(node)
    return users


def _numel(meta: TensorMeta) -> int | None:
    if meta.shape and not meta.example:
        return None
    return math.prod(meta.example)


def _bytes(meta: TensorMeta) -> int | None:
    count = _numel(meta)
    return None if count is None else count * dtype_bytes(meta.dtype)


def _read_bytes(node: Node, users: dict[str, list[Node]]) -> int:
    size = _bytes(node.values[0]) or 0
    parts = 0
    for user in users.get(node.name, []):
        if node.name in user.kwargs and user.op == "output":
            continue  # An input that is written, and returned as it is.
        first = list(refs(user.args)).count(node.name) == 1 and next(refs(user.args)) == node.name
        if first and user.target in _PART_WRITES:
            # What stays as it is moves nowhere; who reads the result reads it.
            parts += _read_bytes(user, {**users, user.name: [u for u in users.get(user.name, []) if u.op != "output"]})
            continue
        if not (first and user.target in _TABLE_READS) and user.target not in _PARTIAL_VIEWS:
            return size
        if user.target in _PARTIAL_VIEWS and all(u.target in _PART_WRITES for u in users.get(user.name, [])):
            parts += _read_bytes(user, users)
            continue
        for meta in user.values:
            part = _bytes(meta)
            if part is None:
                return size
            parts += part
    return min(size, parts)


def _write_bytes(graph: Graph, by_name: dict[str, Node]) -> int:
    total = 0
    output = graph.nodes[-1]
    for name in dict.fromkeys(operands(output)):
        node = by_name[name]
        if not node.values or _base(node, by_name).op in ("input", "param"):
            continue
        part = _new_part(node, by_name) if Ref(name=name) in output.kwargs.values() else node
        total += _bytes(part.values[0]) or _largest_operand(part, by_name)
    return total


def _new_part(node: Node, by_name: dict[str, Node]) -> Node:
    """What is new of the value that an input takes, as one row of a cache; all of it where nothing says less."""
    place = _PART_WRITES.get(node.target)
    if place is None or _base(by_name[next(refs(node.args))], by_name).op not in ("input", "param"):
        return node
    return _new_part(by_name[next(refs(node.args[place : place + 1]))], by_name)


def _base(node: Node, by_name: dict[str, Node]) -> Node:
    while node.op == "call" and node.target in _VIEWS and node.target != "aten.clone.default":
        name = next(refs(node.args), None)
        if name is None:
            break
        node = by_name[name]
    return node


def _largest_operand(node: Node, by_name: dict[str, Node]) -> int:
    sizes = [_bytes(by_name[name].values[0]) or 0 for name in refs(node.args) if by_name[name].values]
    return max(sizes, default=0)


def flops_of(node: Node, by_name: dict[str, Node]) -> int:
    """Operations of one node of a graph."""
    if node.target in _VIEWS or not node.values:
        return 0
    if node.target in _PART_WRITES:
        return _numel(by_name[next(refs(node.args[_PART_WRITES[node.target] :]))].values[0]) or 0
    operands = [by_name[name].values[0] for name in refs(node.args) if by_name[name].values]
    shapes = [meta.example for meta in operands]
    result = _numel(node.values[0])
    if node.target.startswith(("aten.mm.", "aten.bmm.", "aten.mv.", "aten.dot.")):
        return 2 * math.prod(shapes[0]) * (shapes[1][-1] if len(shapes[1]) > 1 else 1)
    if node.target.startswith(("aten.addmm.", "aten.baddbmm.")):
        return 2 * math.prod(shapes[1]) * shapes[2][-1] + (result or 0)
    if node.target.startswith("aten.convolution"):
        return 2 * (result or 0) * math.prod(shapes[1][1:])
    if "scaled_dot_product" in node.target:
        query, key = shapes[0], shapes[1]
        return 4 * math.prod(query) * key[-2]
    if node.target in _RECURRENT:
        steps, batch = shapes[0][:2]
        return 2 * steps * batch * sum(math.prod(shape) for shape in shapes[1:] if len(shape) == 2)
    first = _numel(operands[0]) if operands else None
    return max(result or 0, first or 0)
