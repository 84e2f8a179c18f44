"""Keeps channels last between library convolutions: the operators between them are computed in that order, too.

Every value of the chain has a twin whose channels are its last dimension; the value itself is a view of it, so that
whoever reads it in the usual order still finds it. The library's fastest convolutions read and write that order, and
would rearrange their inputs and results by themselves otherwise.
"""

from dataclasses import dataclass, field

from msgspec import structs

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Graph, Items, Node, Ref, TensorMeta
from ..ir.build import is_float
from .calls import call, in_order, permuted, viewed
from .depthwise import is_depthwise
from .library_convolutions import CONVOLUTION_LAST, CONVOLUTIONS, is_kept
from .lower import PIECEWISE
from .part_writes import WRITTEN
from .pointwise import base_name, is_pointwise
from .reductions import describe, is_reduction
from .views import VIEWS

_PLANE, _SPACE = 4, 5
"""Dimensions of what is convolved in two dimensions, and in three."""
_ALIGNED = 4


def channels_last(graph: Graph, transposed: bool = False) -> Graph:
    """The graph with its convolutions in two and three dimensions, and what stands between them, in twins.

    Grouped convolutions stay as they are: the library is slower there with channels last, but for those of every
    channel by itself. ``transposed``: whether transposed ones do not.
    """
    last: set[str] = set()
    for rank in (_PLANE, _SPACE):
        rewriting = _Rewriting({node.name: node for node in graph.nodes}, transposed, rank)
        if any(rewriting.takes(node) for node in graph.nodes):
            for node in graph.nodes:
                rewriting.visit(node)
            graph = structs.replace(graph, nodes=tuple(rewriting.nodes))
            last |= rewriting.rewritten
    return _in_usual_order(graph, last) if last else graph


def has_channels_last(graph: Graph) -> bool:
    """Whether :func:`channels_last` changes the graph."""
    before = {node.name: node for node in graph.nodes}
    return any(_Rewriting(before, False, rank).takes(node) for rank in (_PLANE, _SPACE) for node in graph.nodes)


def is_taken_transposed(convolution: Node) -> bool:
    """Whether a convolution is a transposed one that :func:`channels_last` can take."""
    return bool(convolution.args[6]) and convolution.args[8] == 1 and len(convolution.values[0].shape) >= _PLANE


def library_call(node: Node) -> Node:
    """The call of PyTorch that a node stands for: itself, but for :data:`CONVOLUTION_LAST` and :data:`WRITTEN`."""
    if node.target == WRITTEN:
        return structs.replace(node, target=str(node.args[1]), args=node.args[2:])
    if node.target != CONVOLUTION_LAST:
        return node
    return structs.replace(node, target=CONVOLUTIONS[len(node.args) > 9])


def result_last(node: Node) -> str:
    """What makes the result of that call the one that the node has, as text behind it."""
    return f".permute{_last(len(node.values[0].shape))}" if node.target == CONVOLUTION_LAST else ""


@dataclass
class _Rewriting:
    """One pass over a graph; ``nodes`` is what has been written."""

    before: dict[str, Node]
    transposed: bool
    rank: int
    """Dimensions of the values that have twins."""
    nodes: list[Node] = field(default_factory=list)
    twins: dict[str, str] = field(default_factory=dict)
    """By value, its twin in memory or computed."""
    rewritten: set[str] = field(default_factory=set)
    """Values that are views of their twins; the others with a twin were rearranged for a convolution."""
    views: dict[str, str] = field(default_factory=dict)
    """By value without a twin, a view of it with channels last."""
    filters: dict[str, str] = field(default_factory=dict)
    """By weight, a view of its copy with channels last."""

    def takes(self, node: Node) -> bool:
        """Whether the node is a convolution that is to have its channels last."""
        return (
            node.target in CONVOLUTIONS
            and not is_kept(node)
            and all(isinstance(arg, Ref) for arg in node.args[:2])
            and len(node.values[0].shape) == self.rank
            and is_float(node.values[0].dtype)
            and (is_taken_transposed(node) if self.transposed and node.args[6] else not node.args[6])
            and (node.args[8] == 1 or is_depthwise(node, self.before))
        )

    def visit(self, node: Node) -> None:
        """Write ``node``, or its twin and a view of that under its name."""
        if self.takes(node):
            self._convolution(node)
        elif is_reduction(node) and self._reads_twin(node):
            self._reduction(node)
        elif (args := self._elementwise(node)) is not None:
            self._twin(node, args)
        else:
            self.nodes.append(node)

    def _twin(self, node: Node, args: tuple[Arg, ...], target: str = "") -> None:
        name, meta = f"{node.name}_last", node.values[0]
        twin = structs.replace(node, name=name, target=target or node.target, args=args, values=(_moved(meta),))
        self.nodes += [twin, _permuted(node.name, name, _first(self.rank), meta)]
        self.twins[node.name] = name
        self.rewritten.add(node.name)

    def _convolution(self, node: Node) -> None:
        source = next(refs(node.args))
        meta = self.before[source].values[0]
        if source not in self.twins:
            view = self._view_of(source)
            copy = f"{source}_last"
            self.nodes.append(call(copy, "aten.clone.default", (Ref(name=view),), _moved(meta)))
            self.twins[source] = copy
        read = f"{node.name}_read"
        self.nodes.append(_permuted(read, self.twins[source], _first(self.rank), meta))
        _, weight, *others = node.args
        self._twin(node, (Ref(name=read), self._filters(node, weight), *others), CONVOLUTION_LAST)

    def _filters(self, node: Node, weight: Arg) -> Arg:
        """The filters in the library's order: it would put them into that by itself, at half the speed of memory."""
        assert isinstance(weight, Ref)
        meta = self.before[weight.name].values[0]
        # Of a picture's three channels the library has a faster way with the filters as they are.
        if set(meta.shape[2:]) == {1} or meta.example[1] % _ALIGNED or weight.name in self.twins:
            return weight
        copy, read = f"{node.name}_filters_last", f"{node.name}_filters"
        if weight.name not in self.filters:
            view = self._view_of(weight.name)
            self.nodes.append(call(copy, "aten.clone.default", (Ref(name=view),), _moved(meta)))
            self.nodes.append(_permuted(read, copy, _first(self.rank), meta))
            self.filters[weight.name] = read
        return Ref(name=self.filters[weight.name])

    def _view_of(self, name: str) -> str:
        if name not in self.views:
            meta, source = self.before[name].values[0], name
            if missing := self.rank - len(meta.shape):
                # As broadcasting reads it.
                ones, source = (1,) * missing, self._new(f"{name}_whole")
                meta = TensorMeta(shape=(*ones, *meta.shape), dtype=meta.dtype, example=(*ones, *meta.example))
                self.nodes.append(viewed(source, name, meta))
            self.views[name] = self._new(f"{name}_viewed_last")
            self.nodes.append(_permuted(self.views[name], source, _last(self.rank), _moved(meta)))
        return self.views[name]

    def _new(self, name: str) -> str:
        """A parameter may be read in two dimensions and in three."""
        return name if name not in self.before else f"{name}_{self.rank}"

    def _reads_twin(self, node: Node) -> bool:
        first = node.args[0] if node.args else None
        return isinstance(first, Ref) and first.name in self.twins

    def _elementwise(self, node: Node) -> tuple[Arg, ...] | None:
        """Arguments of the node's twin; None where it has none."""
        name = base_name(node.target)
        if node.op != "call" or len(node.values) != 1 or len(node.values[0].shape) != self.rank:
            return None
        read = list(operands(node))
        if not any(arg in self.twins for arg in read) or any(refs(node.kwargs.values())):
            return None
        if any(len(self.before[arg].values) != 1 or len(self._shape(arg)) > self.rank for arg in read):
            return None
        if is_pointwise(node.target):
            return tuple(self._operand(arg) for arg in node.args)
        if name not in ("slice", *PIECEWISE) or node.kwargs:
            return None
        first, *rest = node.args
        if name == "constant_pad_nd":
            assert isinstance(rest[0], Items)
            return (self._operand(first), _pads(rest[0], self.rank), *rest[1:])
        dim = rest[0] if rest else 0
        if not isinstance(dim, int) or (name == "cat" and not all(len(self._shape(arg)) == self.rank for arg in read)):
            return None
        return (self._operand(first), _last(self.rank).index(dim % self.rank), *rest[1:])

    def _shape(self, name: str) -> tuple[int | str, ...]:
        return self.before[name].values[0].shape

    def _operand(self, arg: Arg) -> Arg:
        if isinstance(arg, Items):
            return Items(items=tuple(self._operand(item) for item in arg.items))
        if not isinstance(arg, Ref) or not self._shape(arg.name):
            return arg
        return Ref(name=self.twins[arg.name] if arg.name in self.twins else self._view_of(arg.name))

    def _reduction(self, node: Node) -> None:
        """A reduction over dimensions of the twin: where channels stay, they are columns."""
        source = self.before[next(refs(node.args))]
        spec = describe(node, source)
        order = _last(self.rank)
        kept = [dim for dim in order if dim not in spec.dims]
        listed = len(node.args) > 1 and not base_name(node.target).startswith("arg")
        if not listed or (not spec.keepdim and kept != sorted(kept)):
            self.nodes.append(node)
            return
        dims = Items(items=tuple(sorted(order.index(dim) for dim in spec.dims)))
        args = (Ref(name=self.twins[source.name]), dims, *node.args[2:])
        if not spec.keepdim:
            self.nodes.append(structs.replace(node, args=args))
            return
        self._twin(node, args)


def _in_usual_order(graph: Graph, last: set[str]) -> Graph:
    """The graph with copies in the usual order of what is a view of its twin, for those who go by the order in memory.

    Results of the graph lie as the reference's do. What the library computes of a view lies as that, and would be
    copied for whoever reads it next; a convolution that is not to have its channels last would have them.
    """
    nodes: list[Node] = []
    before = {node.name: node for node in graph.nodes}
    copies: dict[str, str] = {}

    def in_order(arg: Arg) -> Arg:
        if not isinstance(arg, Ref):
            return arg
        if arg.name not in copies:
            node, name = before[arg.name], f"{arg.name}_in_order"
            first = node.args[0] if node.args else None
            if arg.name in last:
                nodes.append(call(name, "aten.clone.default", (arg,), node.values[0]))
            elif _is_view(node) and (moved := in_order(first)) != first:
                nodes.append(structs.replace(node, name=name, args=(moved, *node.args[1:])))
            else:
                name = arg.name
            copies[arg.name] = name
        return Ref(name=copies[arg.name])

    for node in graph.nodes:
        goes = node.op == "output" or (node.op == "call" and _goes_by_order(node))
        nodes.append(structs.replace(node, args=tuple(map(in_order, node.args))) if goes else node)
    return structs.replace(graph, nodes=tuple(nodes))


def _is_view(node: Node) -> bool:
    return node.op == "call" and (node.target == "operator.getitem" or base_name(node.target) in VIEWS)


def _goes_by_order(node: Node) -> bool:
    name = base_name(node.target)
    is_named = name in ("convolution_backward", "sort") or "pool" in name or name.startswith("upsample")
    return node.target in CONVOLUTIONS or is_named


def _last(rank: int) -> tuple[int, ...]:
    """Dimensions of a value in the order of its twin's."""
    return (0, *range(2, rank), 1)


def _first(rank: int) -> tuple[int, ...]:
    """The other way round."""
    return (0, rank - 1, *range(1, rank - 1))


def _permuted(name: str, source: str, order: tuple[int, ...], meta: TensorMeta) -> Node:
    return permuted(name, source, order, structs.replace(meta, strides=()))


def _moved(meta: TensorMeta) -> TensorMeta:
    """What is known of a value's twin."""
    return in_order(meta, _last(len(meta.shape)))


def _pads(pads: Items, rank: int) -> Items:
    """What is padded, from the last dimension on: before and behind each."""
    pairs: list[tuple[Arg, Arg]] = [(0, 0)] * rank
    for place in range(len(pads.items) // 2):
        pairs[rank - 1 - place] = (pads.items[2 * place], pads.items[2 * place + 1])
    return Items(items=tuple(pad for dim in reversed(_last(rank)) for pad in pairs[dim]))
