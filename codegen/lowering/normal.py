"""Rewrites a captured graph into fewer kinds of nodes: variance into sums, ``addmm`` into product and sum, …"""

import math
from collections import Counter
from collections.abc import Callable, Collection

from msgspec import structs

from ...hardware.machine.work import operands
from ...schemas import Arg, Expr, Graph, Items, Node, Ref, TensorMeta
from ..ir.build import compute_dtype
from ..ir.poly import product
from ..ir.printing import python_poly
from .calls import call, dim_argument, dims_argument, viewed, with_dtype, with_ones
from .counted_rows import counted_rows
from .part_writes import written_inside
from .pointwise import base_name, is_pointwise
from .recurrences import looped
from .renaming import renamed
from .scatters import assembled
from .top_k import picked
from .views import VIEWS, dim_of, dims_of, shape_of

SEGMENT_OFFSETS = "ks.segment_offsets"
"""Where every segment of a ragged dimension begins: exclusive running sum of its lengths, with the total at the end."""

SEGMENT_OF = "ks.segment_of"
"""Segment of every element of a ragged dimension, from the offsets: ``repeat_interleave`` of the segments' numbers."""

RUNNING_SUM, RUNNING_PRODUCT = "aten.cumsum.default", "ks.running_product"
"""``cumprod``, where there is a kernel for it."""

VARIANCES = ("aten.var.correction", "aten.var_mean.correction")
ADDED = ("float32", "float64", "int64", "int32")
"""dtypes that sums by an index are made in."""


def normalise(
    graph: Graph,
    variance: str = "two_pass",
    ragged: bool = True,
    on_processor: bool = False,
    loops: bool = True,
    sums: bool = False,
    exact: Collection[str] = (),
) -> Graph:
    """The same graph with compound operators taken apart; node names that others refer to stay.

    Args:
        graph: captured graph.
        variance: ``two_pass`` (mean first, then squared distances) or ``shifted`` (one pass over distances from the
            first element of the row: cheaper, less accurate where that element lies far from the mean).
        ragged: take ``repeat_interleave`` apart into offsets and segments.
        on_processor: what pays there: values that are added by number are sums by index, and convolutions of single
            pixels are products.
        loops: recurrences that were captured step by step are one node each.
        sums: also those whose steps sum over dimensions.
        exact: names of variances that are ``two_pass`` in any case.
    """
    rewritten: list[Node] = []
    nodes = _out_of_place(assembled(written_inside(graph.nodes)))
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        rule = _RULES.get(node.target)
        is_left = (rule is _repeat_interleave and not ragged) or (rule in _ON_PROCESSORS and not on_processor)
        if rule is None or is_left:
            rewritten.append(node)
        else:
            rewritten.extend(rule(node, by_name, "two_pass" if node.name in exact else variance))
    linked = _link_items(rewritten)
    if loops:
        linked = looped(linked, sums)
    if on_processor:
        linked = picked(linked)
    guards = dict.fromkeys([*graph.guards, *counted_rows(graph)])
    return Graph(nodes=tuple(linked), symbols=graph.symbols, guards=tuple(guards))


def _out_of_place(nodes: tuple[Node, ...]) -> list[Node]:
    """``add_`` on a value that nothing else reads is ``add``: a decomposition may leave such behind."""
    users = Counter(name for node in nodes for name in set(operands(node)))
    calls = {node.name for node in nodes if node.op == "call" and base_name(node.target) not in VIEWS}
    new_nodes = []
    for node in nodes:
        name = base_name(node.target)
        first = node.args[0] if node.args else None
        fresh = isinstance(first, Ref) and first.name in calls and users[first.name] == 1
        if name.endswith("_") and not name.endswith("__") and fresh and is_pointwise(node.target.replace("_.", ".", 1)):
            node = structs.replace(node, target=node.target.replace("_.", ".", 1))
        new_nodes.append(node)
    return new_nodes


def _link_items(nodes: list[Node]) -> list[Node]:
    """``getitem`` of an operator that was taken apart refers to its parts by name: drop the indirection."""
    parts = {node.name for node in nodes}
    names: dict[str, str] = {}
    kept = []
    for node in nodes:
        if node.target == "operator.getitem" and isinstance(node.args[0], Ref):
            part = f"{node.args[0].name}_item{node.args[1]}"
            if part in parts:
                names[node.name] = part
                continue
        kept.append(renamed(node, names))
    return kept


def _variance(node: Node, by_name: dict[str, Node], method: str) -> list[Node]:
    """``var`` and ``var_mean``: mean of squared distances from the mean, divided by ``n - correction``.

    PyTorch divides by 0 where that is less, and takes fractions: it keeps what may come to that.
    """
    assert isinstance(node.args[0], Ref)
    source = by_name[node.args[0].name].values[0]
    rank = len(source.shape)
    dims = dims_of(node.args[1] if len(node.args) > 1 else node.kwargs.get("dim"), rank)
    correction = node.kwargs.get("correction")
    correction = 1 if correction is None else correction
    name, result = node.name, node.values[0]
    keep = with_dtype(with_ones(source, dims), result.dtype)
    full = with_dtype(source, compute_dtype(result.dtype))
    axes = Items(items=dims)
    count = product(shape_of(by_name[node.args[0].name])[d] for d in dims)
    least = 1 if count.constant is None else count.constant
    if not isinstance(correction, int | float) or correction != int(correction) or correction > least:
        return [node]
    degrees = Expr(value=python_poly(count - int(correction)))
    single = base_name(node.target) == "var"
    last = name if single else f"{name}_item0"
    flat = dims_argument(result.shape)
    x: Arg = node.args[0]
    if method == "shifted" and dims:
        return _shifted(name, last, x, dims, axes, count, degrees, (source, full, keep, result), single, flat)
    mean, d, square, total = (f"{name}_{part}" for part in ("mean", "distance", "square", "sum"))
    nodes = [
        call(mean, "aten.mean.dim", (x, axes, True), keep),
        call(d, "aten.sub.Tensor", (x, Ref(name=mean)), full),
        call(square, "aten.mul.Tensor", (Ref(name=d), Ref(name=d)), full),
        call(total, "aten.sum.dim_IntList", (Ref(name=square), axes, True), keep),
        call(f"{name}_var", "aten.div.Tensor", (Ref(name=total), degrees), keep),
        call(last, "aten.view.default", (Ref(name=f"{name}_var"), flat), result),
    ]
    if not single:
        nodes.append(call(f"{name}_item1", "aten.view.default", (Ref(name=mean), flat), result))
    return nodes


def _shifted(
    name: str,
    last: str,
    x: Arg,
    dims: tuple[int, ...],
    axes: Items,
    count: object,
    degrees: Arg,
    metas: tuple[TensorMeta, TensorMeta, TensorMeta, TensorMeta],
    single: bool,
    flat: Items,
) -> list[Node]:
    source, full, keep, result = metas
    n = Expr(value=python_poly(count))  # type: ignore[arg-type]

    def ref(part: str) -> Ref:
        return Ref(name=f"{name}_{part}")

    nodes = [
        *_first(f"{name}_first", x, dims, source),
        call(f"{name}_distance", "aten.sub.Tensor", (x, ref("first")), full),
        call(f"{name}_square", "aten.mul.Tensor", (ref("distance"), ref("distance")), full),
        call(f"{name}_sum1", "aten.sum.dim_IntList", (ref("distance"), axes, True), keep),
        call(f"{name}_sum2", "aten.sum.dim_IntList", (ref("square"), axes, True), keep),
        call(f"{name}_shift", "aten.div.Tensor", (ref("sum1"), n), keep),
        call(f"{name}_excess", "aten.mul.Tensor", (ref("sum1"), ref("shift")), keep),
        call(f"{name}_rest", "aten.sub.Tensor", (ref("sum2"), ref("excess")), keep),
        call(f"{name}_positive", "aten.clamp_min.default", (ref("rest"), 0.0), keep),
        call(f"{name}_var", "aten.div.Tensor", (ref("positive"), degrees), keep),
        call(last, "aten.view.default", (ref("var"), flat), result),
    ]
    if not single:
        nodes.append(call(f"{name}_mean", "aten.add.Tensor", (ref("first"), ref("shift")), keep))
        nodes.append(call(f"{name}_item1", "aten.view.default", (ref("mean"), flat), result))
    return nodes


def _first(name: str, x: Arg, dims: tuple[int, ...], source: TensorMeta) -> list[Node]:
    """The first element along ``dims``, which stay with size 1; the last node is called ``name``."""
    nodes: list[Node] = []
    for count, dim in enumerate(dims, 1):
        meta = with_ones(source, dims[:count])
        part = name if count == len(dims) else f"{name}_{dim}"
        nodes.append(call(part, "aten.slice.Tensor", (x, dim, 0, 1), meta))
        x = Ref(name=part)
    return nodes


def _addmm(node: Node, by_name: dict[str, Node], method: str) -> list[Node]:
    if node.kwargs:
        return [node]
    product_name = f"{node.name}_mm"
    meta = node.values[0]
    return [
        call(product_name, "aten.mm.default", tuple(node.args[1:3]), meta),
        call(node.name, "aten.add.Tensor", (Ref(name=product_name), node.args[0]), meta),
    ]


def _repeat_interleave(node: Node, by_name: dict[str, Node], method: str) -> list[Node]:
    assert isinstance(node.args[0], Ref)
    lengths = by_name[node.args[0].name].values[0]
    if len(lengths.shape) != 1 or lengths.dtype not in ("int64", "int32"):
        return [node]
    offsets = f"{node.name}_offsets"
    shape = (python_poly(shape_of(by_name[node.args[0].name])[0] + 1),)
    example = tuple(size + 1 for size in lengths.example)
    return [
        call(offsets, SEGMENT_OFFSETS, (node.args[0],), TensorMeta(shape=shape, dtype="int64", example=example)),
        call(node.name, SEGMENT_OF, (Ref(name=offsets),), node.values[0]),
    ]


def _scatter(node: Node, by_name: dict[str, Node], method: str) -> list[Node]:
    """A number in one place of every row: the places are compared with the index, as autograd's of a look-up are."""
    table, dim, index, value = node.args
    if not isinstance(table, Ref) or not isinstance(index, Ref) or not isinstance(dim, int) or isinstance(value, Ref):
        return [node]
    result, places = node.values[0], by_name[index.name].values[0]
    dim %= max(len(result.shape), 1)
    across = (*result.shape[:dim], 1, *result.shape[dim + 1 :])
    if tuple(places.shape) != across:
        return [node]
    here, match = f"{node.name}_here", f"{node.name}_match"
    line, column = f"{node.name}_line", (*[1] * dim, result.shape[dim], *[1] * (len(across) - 1 - dim))
    size, extent = dim_argument(result.shape[dim]), result.example[dim] if result.example else 0
    flat = TensorMeta(shape=column[dim : dim + 1], dtype="int64", example=(extent,))
    shaped = TensorMeta(
        shape=column, dtype="int64", example=tuple(extent if d == dim else 1 for d in range(len(across)))
    )
    full = with_dtype(result, "bool")
    return [
        call(line, "aten.arange.default", (size,), flat),
        viewed(here, line, shaped),
        call(match, "aten.eq.Tensor", (Ref(name=here), index), full),
        call(
            f"{node.name}_value", "aten.scalar_tensor.default", (value,), structs.replace(result, shape=(), example=())
        ),
        call(node.name, "aten.where.self", (Ref(name=match), Ref(name=f"{node.name}_value"), table), result),
    ]


def _index_put(node: Node, by_name: dict[str, Node], method: str) -> list[Node]:
    """Values that are added to rows by number, as gradients of looked-up rows are: ``index_add`` along rows."""
    base, listed, values, *rest = node.args
    is_added = (rest[0] if rest else node.kwargs.get("accumulate")) is True
    if not is_added or not isinstance(base, Ref) or not isinstance(values, Ref) or not isinstance(listed, Items):
        return [node]
    (index, *others) = listed.items
    if not isinstance(index, Ref) or any(others):
        return [node]
    places, result = by_name[index.name].values[0], node.values[0]
    given = by_name[values.name].values[0]
    if (
        places.dtype != "int64"
        or not places.shape
        or result.dtype not in ADDED
        or given.shape != (*places.shape, *result.shape[1:])
    ):
        return [node]
    count = product(shape_of(by_name[index.name]))
    many = dim_of(count)
    example = math.prod(places.example) if places.example else 0
    rows = structs.replace(places, shape=(many,), example=(example,), strides=())
    flat = structs.replace(given, shape=(many, *result.shape[1:]), example=(example, *result.example[1:]), strides=())
    index_name, values_name = f"{node.name}_rows", f"{node.name}_values"
    given_name, is_below, from_the_end = f"{node.name}_given", f"{node.name}_below", f"{node.name}_from_the_end"
    return [
        viewed(given_name, index.name, rows),
        # Rows may be counted from the end, which is an error for `index_add`.
        call(is_below, "aten.lt.Scalar", (Ref(name=given_name), 0), structs.replace(rows, dtype="bool")),
        call(from_the_end, "aten.add.Scalar", (Ref(name=given_name), dim_argument(result.shape[0])), rows),
        call(index_name, "aten.where.self", tuple(Ref(name=n) for n in (is_below, from_the_end, given_name)), rows),
        viewed(values_name, values.name, flat),
        call(node.name, "aten.index_add.default", (base, 0, Ref(name=index_name), Ref(name=values_name)), result),
    ]


_SMALL_PRODUCT = 1 << 18
"""Multiplications of a product up to which calling a library takes longer."""


def _convolution(node: Node, by_name: dict[str, Node], method: str) -> list[Node]:
    """A convolution of images of one pixel with filters of one is a product: squeeze and excitation has two."""
    x, weight, bias, _, padding, _, transposed, _, groups = node.args
    if not isinstance(x, Ref) or not isinstance(weight, Ref) or transposed or groups != 1:
        return [node]
    source, filters, result = by_name[x.name].values[0], by_name[weight.name].values[0], node.values[0]
    pixels = (*source.shape[2:], *filters.shape[2:])
    if any(size != 1 for size in pixels) or any(padding.items if isinstance(padding, Items) else (padding,)):
        return [node]
    name = node.name

    def flat(meta: TensorMeta) -> TensorMeta:
        return structs.replace(meta, shape=meta.shape[:2], example=meta.example[:2], strides=())

    def resized(meta: TensorMeta, shape: tuple[int | str, ...], example: tuple[int, ...]) -> TensorMeta:
        return structs.replace(meta, shape=shape, example=example, strides=())

    (rows, inner), (outer, _) = source.shape[:2], filters.shape[:2]
    (many, length), (width, _) = source.example[:2], filters.example[:2]
    product_name = f"{name}_mm"
    if many * length * width <= _SMALL_PRODUCT:
        left, right = resized(source, (rows, 1, inner), (many, 1, length)), flat(filters)
        full = resized(result, (rows, outer, inner), (many, width, length))
        nodes = [
            viewed(f"{name}_x", x.name, left),
            viewed(f"{name}_filters", weight.name, right),
            call(f"{name}_mul", "aten.mul.Tensor", (Ref(name=f"{name}_x"), Ref(name=f"{name}_filters")), full),
            call(product_name, "aten.sum.dim_IntList", (Ref(name=f"{name}_mul"), Items(items=(2,))), flat(result)),
        ]
    else:
        turned = resized(filters, filters.shape[1::-1], filters.example[1::-1])
        nodes = [
            viewed(f"{name}_x", x.name, flat(source)),
            viewed(f"{name}_filters", weight.name, flat(filters)),
            call(f"{name}_turned", "aten.t.default", (Ref(name=f"{name}_filters"),), turned),
            call(product_name, "aten.mm.default", (Ref(name=f"{name}_x"), Ref(name=f"{name}_turned")), flat(result)),
        ]
    if bias is not None:
        nodes.append(call(f"{name}_sum", "aten.add.Tensor", (Ref(name=product_name), bias), flat(result)))
    return [*nodes, viewed(name, nodes[-1].name, result)]


_RULES: dict[str, Callable[[Node, dict[str, Node], str], list[Node]]] = {
    **dict.fromkeys(VARIANCES, _variance),
    "aten.addmm.default": _addmm,
    "aten.repeat_interleave.Tensor": _repeat_interleave,
    "aten.scatter.value": _scatter,
    "aten.index_put.default": _index_put,
    "aten.convolution.default": _convolution,
}
_ON_PROCESSORS = (_index_put, _convolution)
