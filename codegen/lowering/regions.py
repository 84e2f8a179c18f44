"""Partitions a graph into generated kernels and operators that are left to PyTorch.

Anchors are the values that must exist: reductions, results of special steps, and whatever an operator of PyTorch or the
caller needs. They are taken in order; each joins a kernel whose iteration space it fits, or opens a new one. Everything
between anchors is computed in place, wherever it is used.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...hardware.machine.work import refs
from ...schemas import Graph, Node
from ..ir.build import SUPPORTED, Unsupported, cast, compute_dtype, load
from ..ir.loops import Accumulation, Buffer, Kernel, SpecialKernel, Store
from ..ir.poly import ONE, Poly, poly, product
from ..ir.scalar import Scalar
from . import attention, recurrent_kernels, special_kernels, stepped_kernels, sums_by_index
from .anchors import Anchors, is_special
from .attention import ATTENTION
from .lower import Lowering
from .plan import AnyKernel, Plan
from .pointwise import base_name
from .recurrences import LAST, RECURRENCE, STEPS
from .recurrent_kernels import recurrent_kernel
from .reductions import body_of, describe, finish, is_reduction, made_of, result_dtype
from .special_kernels import special_kernel
from .sums_by_index import bounds_of, is_sum_by_index, scatter_kernel
from .views import Index, linear, reshape_index, shape_of, spread, squeezed


class _Elsewhere(Exception):
    """A value cannot be had in the kernel that asks for it."""


@dataclass(frozen=True)
class Fusion:
    """How far anchors join kernels."""

    reductions: bool = True
    """Reductions over the same rows, and what follows them, share a kernel."""
    outer: bool = True
    """A reduction of row values over all rows joins the rows' kernel."""
    stores: bool = True
    """Independent elementwise results of one shape share a kernel."""
    keep_shared: bool = False
    """Pointwise values with several users are stored once instead of computed for each."""
    columns: bool = False
    """Values of a row that are put side by side are stored by the rows' kernel; there on processors alone."""
    column_scans: bool = False
    """Running sums over another dimension than the last have a kernel; there on processors alone."""
    store_repeated: bool = False
    """Costly values that broadcasting repeats are stored once (:mod:`.repeated`); measured on processors alone."""
    store_read_again: bool = False
    """What windows, or several passes, would compute again is stored (:mod:`.read_again`); measured on GPUs alone."""


def partition(graph: Graph, fusion: Fusion, left: Iterable[str] = (), prefix: str = "") -> Plan:
    """Partition a normalised graph. Nodes in ``left``, and those not expressible, are left to PyTorch.

    The kernels' names begin with ``prefix``.
    """
    given_up: set[str] = set(left)
    while True:
        try:
            return _Partition(graph, fusion, given_up, prefix).plan()
        except Unsupported as error:
            if error.node in given_up:
                raise
            given_up.add(error.node)


class _Partition:
    def __init__(self, graph: Graph, fusion: Fusion, given_up: set[str], prefix: str = "") -> None:
        self.graph = graph
        self.prefix = prefix
        self.fusion = fusion
        self.anchors = Anchors(graph, given_up, fusion.store_read_again)
        self.nodes, self.live = self.anchors.nodes, self.anchors.live
        self.leaves, self.rank = self.anchors.leaves, self.anchors.rank
        self.kernels: list[AnyKernel] = []
        self.at_rank: dict[int, list[Kernel]] = {}
        self.place: dict[str, int] = {}
        """Number of a kernel, by name."""
        self.stored_in: dict[str, AnyKernel] = {}
        self.reduced_in: dict[str, Kernel] = {}
        self._lowerings: dict[tuple[str, str], Lowering] = {}
        """By kernel and level. A chain of steps is lowered once for all anchors along it, not once for each of them."""

    def plan(self) -> Plan:
        """Place every anchor, then order the kernels."""
        needed = self.anchors.needed(self.fusion.keep_shared, self.fusion.store_repeated)
        for node in self.graph.nodes:
            if node.name not in self.live or node.name in self.leaves or node.op != "call":
                continue
            if node.target == RECURRENCE:
                self._place_recurrence(node)
            elif node.target == STEPS:
                self._place_steps(node)
            elif node.target == LAST:
                continue  # The kernel of its steps stores it.
            elif node.target == ATTENTION:
                self._place_attention(node)
            elif is_sum_by_index(node, self.nodes):
                self._place_sum_by_index(node)
            elif is_special(node, self.nodes):
                self._place_special(node)
            elif is_reduction(node):
                self._place_reduction(node)
                if node.name in needed:
                    self._materialise(node.name)
            elif node.name in needed:
                self._place_store(node)
        order = sorted(range(len(self.kernels)), key=lambda i: (self.kernels[i].rank, i))
        externs = [n for n in self.graph.nodes if n.name in self.leaves and n.op == "call" and n.name in self.live]
        kernels = [self.kernels[i] for i in order]
        return Plan(self.graph, self.nodes, externs, kernels, self.rank, self.live)

    # Placing

    def _order(self, kernel: AnyKernel) -> tuple[int, int]:
        return kernel.rank, self.place[kernel.name]

    def _element(self, kernel: Kernel, level: str, name: str, at: Index) -> Scalar:
        """Element ``at`` of node ``name`` in a kernel that others have joined, or may join.

        Raises:
            _Elsewhere: it cannot be had there.
        """
        lowering = self._lowerings.get((kernel.name, level))
        if lowering is None:
            lowering = self._lowerings[kernel.name, level] = self._lowering(kernel, kernel.bounds, level)
        return lowering.element(name, at)

    def _stores(self, kernel: AnyKernel, *names: str) -> None:
        """From now on every other kernel loads these nodes: what was lowered with them in place is lowered again."""
        self.stored_in.update((name, kernel) for name in names)
        for (owner, _), lowering in self._lowerings.items():
            if owner != kernel.name:
                lowering.forget(names)

    def _lowering(self, kernel: AnyKernel, bounds: dict[str, Poly], level: str) -> Lowering:
        def stored(node: Node) -> str | None:
            if node.name in self.leaves:
                if node.op == "input" and not node.values:
                    raise Unsupported(node.name, "a number")
                if any(m.dtype not in SUPPORTED for m in node.values):
                    raise Unsupported(node.name, "dtype")
                return node.name
            owner = self.stored_in.get(node.name)
            if owner is None or owner is kernel:
                return None
            if self._order(owner) > self._order(kernel):
                raise _Elsewhere
            return node.name

        def reduced(node: Node, at: Index) -> Scalar:
            return self._reduced(kernel, node, at, level)

        return Lowering(self.nodes, stored, reduced, bounds)

    def _reduced(self, kernel: AnyKernel, node: Node, at: Index, level: str) -> Scalar:
        owner = self.reduced_in.get(node.name)
        if owner is None:
            raise _Elsewhere
        if owner is kernel:
            assert isinstance(kernel, Kernel)
            return self._own_result(kernel, node, at, level)
        if self._order(owner) > self._order(kernel):
            raise _Elsewhere
        self._materialise(node.name)
        return load(node.name, node.values[0].dtype, linear(at, shape_of(node)))

    def _own_result(self, kernel: Kernel, node: Node, at: Index, level: str) -> Scalar:
        accumulation = kernel.accumulations[node.name]
        if accumulation.level == "full":
            if level != "full":
                raise _Elsewhere
        else:
            here = tuple(p for p, s in zip(at, shape_of(node), strict=True) if s != ONE)
            if here != tuple(kernel.variables[d] for d in kernel.outer) or (not kernel.outer and level != "full"):
                raise _Elsewhere
        return self._result(node, accumulation)

    def _result(self, node: Node, accumulation: Accumulation) -> Scalar:
        source = self.nodes[next(refs(node.args))]
        spec = describe(node, source)
        count = product(shape_of(source)[d] for d in spec.dims)
        return finish(node, Scalar("result", result_dtype(spec), data=accumulation.name), count)

    def _candidates(self, rank: int) -> list[Kernel]:
        return self.at_rank.get(rank, [])[::-1]

    def _new_kernel(self, rank: int, dims: tuple[Poly, ...], reduced: frozenset[int] | None) -> Kernel:
        kernel = Kernel(self._next_name, rank, dims, reduced)
        self._add(kernel)
        self.at_rank.setdefault(rank, []).append(kernel)
        return kernel

    def _add(self, kernel: AnyKernel) -> None:
        self.place[kernel.name] = len(self.kernels)
        self.kernels.append(kernel)

    def _place_reduction(self, node: Node) -> None:
        source = self.nodes[next(refs(node.args))]
        spec = describe(node, source)
        shape = shape_of(source)
        dims = squeezed(shape)
        places = [d for d, s in enumerate(shape) if s != ONE]
        inner = frozenset(k for k, d in enumerate(places) if d in spec.dims)
        if not inner:
            raise Unsupported(node.name, "nothing to reduce")
        rank = self.rank[node.name]
        for kernel in self._candidates(rank):
            same = self.fusion.reductions and kernel.dims == dims and kernel.reduced in (None, inner)
            if same and self._join_reduction(kernel, node, inner, "row"):
                return
            fits = kernel.reduced and squeezed(kernel.dims[d] for d in kernel.outer) == dims and kernel.outer
            whole = self.fusion.outer and fits and len(inner) == len(dims)
            if whole and self._join_reduction(kernel, node, inner, "full"):
                return
        if not self._join_reduction(self._new_kernel(rank, dims, inner), node, inner, "row"):
            raise Unsupported(node.name, "a value it needs comes later")

    def _join_reduction(self, kernel: Kernel, node: Node, inner: frozenset[int], level: str) -> bool:
        source = self.nodes[next(refs(node.args))]
        spec = describe(node, source)
        loops = [kernel.variables[d] for d in (range(len(kernel.dims)) if level == "row" else kernel.outer)]
        at = spread(shape_of(source), loops)
        before = kernel.reduced
        if level == "row":
            kernel.reduced = inner
        try:
            element = self._element(kernel, "element" if level == "row" else "row", source.name, at)
        except _Elsewhere:
            kernel.reduced = before
            return False
        body = body_of(spec, element)
        dtype = "bool" if spec.accumulate in ("any", "all") else spec.dtype
        accumulation = Accumulation(node.name, spec.accumulate, body, dtype, level)
        same = [a for a in kernel.accumulations.values() if (a.op, a.body, a.level) == (accumulation.op, body, level)]
        kernel.accumulations[node.name] = same[0] if same else accumulation
        kernel.nodes.append(node.name)
        self.reduced_in[node.name] = kernel
        return True

    def _materialise(self, name: str) -> None:
        """Have a reduction's result written by the kernel that computes it."""
        kernel, node = self.reduced_in[name], self.nodes[name]
        if name in kernel.stores:
            return
        accumulation = kernel.accumulations[name]
        scalar_level = accumulation.level == "full" or not kernel.outer
        loops = [] if scalar_level else [kernel.variables[d] for d in kernel.outer]
        shape = shape_of(node)
        buffer = Buffer(name, node.values[0].dtype, shape)
        offset = linear(spread(shape, loops), shape)
        level = "full" if scalar_level else "row"
        kernel.stores[name] = Store(buffer, offset, self._result(node, accumulation), level)
        self._stores(kernel, name)

    def _place_store(self, node: Node) -> None:
        rank = self.rank[node.name]
        candidates = self._candidates(rank)
        if len(candidates) > 1:
            # Where the sums are that it is made of lies all else that it reads, in registers.
            stops = self.leaves | self.stored_in.keys() - self.reduced_in.keys()
            summing = {self.reduced_in[name].name for name in made_of(node, self.nodes, self.reduced_in, stops)}
            candidates.sort(key=lambda kernel: kernel.name not in summing)
        if any(self._take_store(kernel, node) for kernel in candidates):
            return
        kernel = self._new_kernel(rank, squeezed(shape_of(node)), None)
        if not self._join_store(kernel, node, "element"):
            raise Unsupported(node.name, "a value it needs comes later")

    def _take_store(self, kernel: Kernel, node: Node) -> bool:
        """Have an existing kernel write ``node`` too, if it goes over the same elements or rows."""
        dims = squeezed(shape_of(node))
        if kernel.reduced is None:
            return kernel.dims == dims and self.fusion.stores and self._join_store(kernel, node, "element")
        if not self.fusion.reductions:
            return False
        if kernel.dims == dims and self._join_store(kernel, node, "element"):
            return True
        if self._join_reshaped(kernel, node) or (self.fusion.columns and self._join_columns(kernel, node)):
            return True
        outer = tuple(kernel.dims[d] for d in kernel.outer)
        if outer == dims and self._join_store(kernel, node, "row" if outer else "full"):
            return True
        ends = not kernel.outer or any(a.level == "full" for a in kernel.accumulations.values())
        return not dims and ends and self._join_store(kernel, node, "full")

    def _join_reshaped(self, kernel: Kernel, node: Node) -> bool:
        """Join a kernel whose rows are the same elements in another shape: group norm reduces (n, groups, rest)."""
        shape = shape_of(node)
        if squeezed(shape) == kernel.dims or product(shape) != product(kernel.dims):
            return False
        at = reshape_index(kernel.variables, kernel.dims, shape, kernel.bounds)
        if any(isinstance(atom, tuple) for p in at for monomial, _ in p.terms for atom in monomial):
            return False
        return self._join_store(kernel, node, "element", at)

    def _join_columns(self, kernel: Kernel, node: Node) -> bool:
        """Join a kernel whose rows' values are put side by side: one store for each of them."""
        shape, last = shape_of(node), len(kernel.dims) - 1
        parts = list(refs(node.args)) if base_name(node.target) == "cat" else []
        shapes = {shape_of(self.nodes[part]) for part in parts}
        outer = tuple(kernel.dims[d] for d in kernel.outer)
        if shapes != {(*shape[:-1], ONE)} or squeezed(shape[:-1]) != outer or not outer or last not in kernel.inner:
            return False
        at = spread((*shape[:-1], ONE), [kernel.variables[d] for d in kernel.outer])
        dtype = node.values[0].dtype
        buffer = Buffer(node.name, dtype, shape)
        try:
            values = [cast(self._element(kernel, "row", part, at), compute_dtype(dtype)) for part in parts]
        except _Elsewhere:
            return False
        for place, value in enumerate(values):
            name = f"{node.name}#{place}" if place else node.name
            kernel.stores[name] = Store(buffer, linear((*at[:-1], poly(place)), shape), value, "row")
        kernel.nodes.append(node.name)
        self._stores(kernel, node.name)
        return True

    def _join_store(self, kernel: Kernel, node: Node, level: str, at: Index | None = None) -> bool:
        places = {"element": range(len(kernel.dims)), "row": kernel.outer, "full": ()}[level]
        shape = shape_of(node)
        at = spread(shape, [kernel.variables[d] for d in places]) if at is None else at
        try:
            value = self._element(kernel, level, node.name, at)
        except _Elsewhere:
            return False
        dtype = node.values[0].dtype
        buffer = Buffer(node.name, dtype, shape)
        kernel.stores[node.name] = Store(buffer, linear(at, shape), cast(value, compute_dtype(dtype)), level)
        kernel.nodes.append(node.name)
        self._stores(kernel, node.name)
        return True

    @property
    def _next_name(self) -> str:
        return f"{self.prefix}kernel{len(self.kernels)}"

    def _place_alone(self, node: Node, kernel: SpecialKernel, fill: Callable[[], None]) -> None:
        """Place a kernel that no other anchor joins; ``fill`` gives it its expressions."""
        self._add(kernel)
        try:
            fill()
        except _Elsewhere:
            raise Unsupported(node.name, "a value it needs comes later") from None
        self._stores(kernel, node.name)

    def _place_special(self, node: Node) -> None:
        kernel = special_kernel(node, self.nodes, self._next_name, self.rank[node.name])
        if not self.fusion.column_scans and kernel.along not in (-1, len(kernel.dims) - 1):
            raise Unsupported(node.name, "a scan over a dimension that is not the last")
        lowering = self._lowering(kernel, bounds_of(kernel.dims), "element")
        self._place_alone(node, kernel, lambda: special_kernels.fill(kernel, node, self.nodes, lowering))

    def _place_recurrence(self, node: Node) -> None:
        kernel = recurrent_kernel(node, self.nodes, self._next_name, self.rank[node.name])
        lowering = self._lowering(kernel, recurrent_kernels.bounds_of(kernel), "element")
        self._place_alone(node, kernel, lambda: recurrent_kernels.fill(kernel, node, lowering))

    def _place_steps(self, node: Node) -> None:
        last = [n for n in self.graph.nodes if n.target == LAST and n.name in self.live and node.name in refs(n.args)]
        kernel = stepped_kernels.stepped_kernel(node, self._next_name, self.rank[node.name])
        self._add(kernel)
        try:
            stepped_kernels.fill(kernel, node, last, self._lowering(kernel, {}, "element"))
        except (_Elsewhere, Unsupported):
            raise Unsupported(node.name, "a step that no kernel takes") from None
        self._stores(kernel, *(buffer.name for buffer in kernel.buffers))

    def _place_attention(self, node: Node) -> None:
        kernel = attention.attention_kernel(node, self.nodes, self._next_name, self.rank[node.name])
        lowering = self._lowering(kernel, attention.bounds_of(kernel), "element")
        self._place_alone(node, kernel, lambda: attention.fill(kernel, node, lowering))

    def _place_sum_by_index(self, node: Node) -> None:
        kernel = scatter_kernel(node, self.nodes, self._next_name, self.rank[node.name])
        lowerings = [self._lowering(kernel, bounds_of(shape), "element") for shape in (kernel.dims, shape_of(node))]
        self._place_alone(node, kernel, lambda: sums_by_index.fill(kernel, node, *lowerings))
