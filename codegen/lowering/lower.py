"""Lowers graph nodes to scalar expressions: one element of a node, in terms of stored values."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...schemas import Arg, Items, Node, Ref
from ..ir.build import SUPPORTED, Unsupported, binary, cast, compute_dtype, const, index, load, number, round_to
from ..ir.poly import ZERO, Poly, poly, value_atom
from ..ir.ranges import surely_inside
from ..ir.scalar import Scalar, rewrite
from .normal import SEGMENT_OF
from .pointwise import base_name, is_pointwise, literal_operand, literal_rank, pointwise
from .recurrences import CARRIED
from .reductions import is_reduction
from .rejoin import rejoined_load
from .step_sums import STEP_SUM
from .views import VIEWS, Index, broadcast, linear, quotients, shape_of, sizes, source_index

CREATIONS = {"full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "scalar_tensor", "arange", "iota"}
GATHERS = {"index", "_unsafe_index", "index_select", "gather", "embedding"}
SEARCHES = {"bucketize", "searchsorted"}
PIECEWISE = {"cat", "constant_pad_nd"}

_MOST_QUOTIENTS = 2
"""Divisions by sizes at every element that cost less than a copy of the tensor."""


@dataclass
class Lowering:
    """Lowers nodes of one graph for one kernel.

    ``stored`` says under which buffer name a node can be loaded (None: compute it in place); ``reduced`` gives the
    value of a reduction at an index. Both may raise to say that the node cannot be had in this kernel.
    """

    nodes: Mapping[str, Node]
    stored: Callable[[Node], str | None]
    reduced: Callable[[Node, Index], Scalar]
    bounds: Mapping[str, Poly]

    def __post_init__(self) -> None:
        self._memo: dict[tuple[str, Index, int], Scalar] = {}
        self._lowered: set[str] = set()
        """Nodes that :attr:`_memo` has elements of."""

    def element(self, name: str, at: Index, item: int = 0) -> Scalar:
        """Element ``at`` of node ``name`` (of its result number ``item``)."""
        key = (name, at, item)
        if key not in self._memo:
            value = self._element(self.nodes[name], at, item)
            if value.op not in ("const", "index") and name not in value.label:
                value.label.append(name)
            self._memo[key] = value
            self._lowered.add(name)
        return self._memo[key]

    def forget(self, names: Iterable[str]) -> None:
        """Lower anew, when next asked for, what was lowered with nodes ``names`` in place: they are stored now."""
        if any(name in self._lowered for name in names):
            self._memo.clear()
            self._lowered.clear()

    def _element(self, node: Node, at: Index, item: int) -> Scalar:
        buffer = self.stored(node)
        if buffer is not None:
            return load(buffer, node.values[0].dtype, linear(at, shape_of(node)))
        name = base_name(node.target)
        if node.op == "constant":
            return _constant(node)
        if node.target == "operator.getitem":
            assert isinstance(node.args[0], Ref)
            assert isinstance(node.args[1], int)
            return self.element(node.args[0].name, at, node.args[1])
        if node.target == SEGMENT_OF:
            offsets = self.stored(self._tensor(node, 0))
            return Scalar("segment", "int64", polys=(at[0], shape_of(self._tensor(node, 0))[0]), data=offsets)
        if is_reduction(node) or node.target in (CARRIED, STEP_SUM):
            return self.reduced(node, at)
        if name in VIEWS:
            return self._view(node, name, at, item)
        if name in CREATIONS:
            return _creation(node, name, at)
        if name in GATHERS:
            return self._gather(node, name, at)
        if name in SEARCHES:
            return self._search(node, name, at)
        if name in PIECEWISE:
            return self._cat(node, at) if name == "cat" else self._pad(node, at)
        if is_pointwise(node.target):
            return pointwise(node, lambda arg: self._operand(node, arg, at), self._rank)
        raise Unsupported(node.name, f"no rule for {node.target}")

    def _tensor(self, node: Node, place: int) -> Node:
        arg = node.args[place]
        assert isinstance(arg, Ref), f"{node.name}: argument {place} is no tensor"
        return self.nodes[arg.name]

    def _operand(self, node: Node, arg: Arg, at: Index) -> Scalar:
        if not isinstance(arg, Ref):
            return literal_operand(arg, node.name)
        source = self.nodes[arg.name]
        return self.element(source.name, broadcast(at, shape_of(source)))

    def _rank(self, arg: Arg) -> tuple[str, int]:
        if not isinstance(arg, Ref):
            return literal_rank(arg)
        meta = self.nodes[arg.name].values[0]
        return meta.dtype, 2 if meta.shape else 1

    def _view(self, node: Node, name: str, at: Index, item: int) -> Scalar:
        base = self._tensor(node, 0)
        buffer = self.stored(base)
        if buffer is not None and name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze"):
            # Contiguous storage: the offset is the same, whatever the shape is called.
            return load(buffer, base.values[0].dtype, linear(at, shape_of(node)))
        source = source_index(node, name, shape_of(base), at, item, self.bounds)
        innermost = f"i{len(self.bounds) - 1}"
        value = self.element(base.name, source)
        most = max(_MOST_QUOTIENTS, quotients(at, innermost))
        if quotients(source, innermost) <= most:
            return value
        # What one view takes apart another may put together: what has its channels last is read in its order.
        value = rewrite(value, rejoined_load)
        if any(quotients(node.polys, innermost) > most for node in value.walk()):
            raise Unsupported(node.name, "a division by sizes for each element: a copy is cheaper")
        return value

    def _gather(self, node: Node, name: str, at: Index) -> Scalar:
        table = self._tensor(node, 0)
        shape = shape_of(table)
        if name == "embedding":
            rows = self._tensor(node, 1)
            picked = self._pick(rows, at[: len(at) - 1], shape[0])
            return self.element(table.name, (picked, at[-1]))
        if name in ("index_select", "gather"):
            dim = node.args[1]
            assert isinstance(dim, int)
            dim %= max(len(shape), 1)
            indices = self._tensor(node, 2)
            if not shape:  # One number is taken for a vector of it.
                return self.element(table.name, ())
            picked = self._pick(indices, at if name == "gather" else (at[dim],), shape[dim])
            return self.element(table.name, (*at[:dim], picked, *at[dim + 1 :]))
        return self._index(node, table, shape, at)

    def _index(self, node: Node, table: Node, shape: Index, at: Index) -> Scalar:
        """``x[i, :, j]``: the dimensions of adjacent indices stand where the first one stood, else in front."""
        listed = node.args[1]
        assert isinstance(listed, Items)
        places = [d for d, arg in enumerate(listed.items) if arg is not None]
        tensors = [self.nodes[arg.name] for arg in listed.items if isinstance(arg, Ref)]
        if any(t.values[0].dtype in ("bool", "uint8") for t in tensors):
            raise Unsupported(node.name, "mixed boolean index")
        width = max(len(t.values[0].shape) for t in tensors)
        adjacent = places == list(range(places[0], places[0] + len(places)))
        front = places[0] if adjacent else 0
        shared = at[front : front + width]
        others = iter((*at[:front], *at[front + width :]))
        picked = iter(tensors)
        source = []
        for dim, extent in enumerate(shape):
            if dim in places:
                tensor = next(picked)
                source.append(self._pick(tensor, broadcast(shared, shape_of(tensor)), extent, from_the_end=True))
            else:
                source.append(next(others))
        return self.element(table.name, tuple(source))

    def _pick(self, indices: Node, at: Index, extent: Poly, *, from_the_end: bool = False) -> Poly:
        """The element's index; negative ones count from the end, or are an error, as PyTorch has it."""
        value = self.element(indices.name, at)
        if value.op == "index" and all(factor > 0 for _, factor in value.polys[0].terms):
            return value.polys[0]
        if value.op == "segment":
            return value_atom(value)
        if value.op == "const" and value.data >= 0:
            return poly(value.data)
        if surely_inside(value, extent):
            return value_atom(cast(value, "int64"))
        return value_atom(Scalar("wrap", "int64", (cast(value, "int64"),), (extent,), flag=from_the_end))

    def _search(self, node: Node, name: str, at: Index) -> Scalar:
        first, second = (1, 0) if name == "bucketize" else (0, 1)
        table = self._tensor(node, first)
        if any(node.kwargs.get(key) is not None for key in ("side", "sorter")):
            raise Unsupported(node.name, "side or sorter")
        buffer = self.stored(table)
        if buffer is None:
            raise Unsupported(node.name, "the sorted sequence is not stored")
        if table.values[0].dtype in ("bfloat16", "float16", "bool"):
            raise Unsupported(node.name, "dtype of the sorted sequence")
        shape = shape_of(table)
        value = self._operand(node, node.args[second], at if isinstance(node.args[second], Ref) else ())
        common = (
            "float64" if "float64" in (value.dtype, table.values[0].dtype) else compute_dtype(table.values[0].dtype)
        )
        row = linear((*at[: len(shape) - 1], ZERO), shape)
        position = Scalar(
            "search",
            "int64",
            (cast(value, common),),
            (row, shape[-1]),
            data=(buffer, table.values[0].dtype),
            flag=bool(node.kwargs.get("right")),
        )
        return cast(position, compute_dtype(node.values[0].dtype))

    def _cat(self, node: Node, at: Index) -> Scalar:
        listed = node.args[0]
        assert isinstance(listed, Items)
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        assert isinstance(dim, int)
        dim %= len(at)
        dtype = compute_dtype(node.values[0].dtype)
        parts, bounds, begin = [], [], ZERO
        for arg in listed.items:
            assert isinstance(arg, Ref)
            part = self.nodes[arg.name]
            if len(part.values[0].shape) != len(at):
                continue
            position = at[dim] - begin
            value = self.element(part.name, (*at[:dim], position, *at[dim + 1 :]))
            if value.op == "piecewise" and value.polys[0] == position:
                # A concatenation of concatenations is one: printers would choose among each one's parts in turn.
                bounds += [begin + bound for bound in value.polys[1:]]
                parts += [cast(piece, dtype) for piece in value.args]
            else:
                parts.append(cast(value, dtype))
            begin = begin + shape_of(part)[dim]
            bounds.append(begin)
        return _piecewise(at[dim], bounds[:-1], parts, dtype)

    def _pad(self, node: Node, at: Index) -> Scalar:
        base = self._tensor(node, 0)
        dtype = compute_dtype(node.values[0].dtype)
        fill = const(number(node.args[2] if len(node.args) > 2 else 0) or 0, dtype)
        assert isinstance(node.args[1], Items)
        pads = sizes(node.args[1])
        shape = shape_of(base)
        source = list(at)
        tests: list[tuple[Poly, Poly, Poly, Poly]] = []
        for k in range(len(pads) // 2):
            dim = len(at) - 1 - k
            before, behind = pads[2 * k : 2 * k + 2]
            source[dim] = at[dim] - before
            tests.append((at[dim], before, behind, before + shape[dim]))
        value = self.element(base.name, tuple(source))
        for position, before, behind, end in tests:
            # Nothing is chosen on a side without padding: printers would write the alternatives all the same.
            front, back = before != ZERO, behind != ZERO
            parts = [*([fill] if front else []), value, *([fill] if back else [])]
            value = _piecewise(position, [*([before] if front else []), *([end] if back else [])], parts, dtype)
        return value


def _piecewise(position: Poly, bounds: list[Poly], parts: list[Scalar], dtype: str) -> Scalar:
    return parts[0] if len(parts) == 1 else Scalar("piecewise", dtype, tuple(parts), (position, *bounds))


def _constant(node: Node) -> Scalar:
    assert isinstance(node.literal, Items)
    if len(node.literal.items) != 1:
        raise Unsupported(node.name, "a constant with several elements is stored")
    return const(number(node.literal.items[0]) or 0, compute_dtype(node.values[0].dtype))


def _creation(node: Node, name: str, at: Index) -> Scalar:
    dtype = compute_dtype(node.values[0].dtype)
    if name.startswith(("zeros", "ones")):
        return const(0 if name.startswith("zeros") else 1, dtype)
    if name in ("full", "full_like", "scalar_tensor"):
        arg = node.args[0] if name == "scalar_tensor" else node.args[1]
        return cast(literal_operand(arg, node.name), dtype)
    return _arange(node, name, at, dtype)


def _arange(node: Node, name: str, at: Index, dtype: str) -> Scalar:
    start: Arg = node.kwargs.get("start", 0) if name == "iota" else 0
    step: Arg = node.kwargs.get("step", 1)
    if node.target == "aten.arange.start":
        start = node.args[0]
    elif node.target == "aten.arange.start_step":
        start, step = node.args[0], node.args[2] if len(node.args) > 2 else step
    if isinstance(start, float) or isinstance(step, float):
        scaled = binary("mul", "float64", index(at[0]), literal_operand(step, node.name))
        value = binary("add", "float64", scaled, literal_operand(start, node.name))
        return round_to(cast(value, dtype), node.values[0].dtype)
    position = at[0] * _integer(step, node) + _integer(start, node)
    return cast(index(position), dtype)


def _integer(arg: Arg, node: Node) -> Poly:
    if isinstance(arg, int):
        return poly(arg)
    value = literal_operand(arg, node.name)
    if value.op == "index":
        return value.polys[0]
    raise Unsupported(node.name, f"bound {arg!r}")


def is_lowerable(node: Node) -> bool:
    """Whether a node may be computed in generated code (reductions and special steps aside)."""
    name = base_name(node.target)
    has_lowering = name in VIEWS or name in CREATIONS or name in GATHERS or name in SEARCHES or name in PIECEWISE
    fits = all(meta.dtype in SUPPORTED for meta in node.values)
    return fits and (has_lowering or is_pointwise(node.target) or node.target in ("operator.getitem", SEGMENT_OF))
