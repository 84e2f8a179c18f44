"""Graph rewrites that are faster on a GPU: a product with a vector as a reduction, the best order of a chain."""

import math
from collections.abc import Collection, Mapping

from msgspec import structs

from ...schemas import Graph, Items, Node, Ref, TensorMeta
from ..ir.build import compute_dtype
from ..lowering.calls import call, permuted, with_dtype
from ..lowering.channels_last import channels_last
from ..lowering.column_scans import rows_scanned
from ..lowering.depthwise import measured_convolutions, spell_depthwise
from ..lowering.extremes import spell_extremes
from ..lowering.library_convolutions import CONVOLUTIONS, kept_convolutions, library_convolutions
from ..lowering.normal import RUNNING_PRODUCT, RUNNING_SUM
from ..lowering.pooling import spell_pools
from ..lowering.pools_first import pools_first
from ..lowering.reassociation import reassociated
from ..lowering.wide_attention import spell_wide_attention
from ..lowering.windows import MOST, Window
from .attention import fuse_attention
from .chain import fuse_chains
from .convolution import fuse_convolutions
from .library_attention import library_attention
from .recurrent_layers import fuse_recurrent_layers
from .tunables import FULL_BOUND, TRANSPOSED_TOO, GpuSettings

_FEW_TAPS = 9
"""Depthwise convolutions of more, read by statistics, are the library's."""


def exact_convolutions(graph: Graph, by_value: Mapping[str, float]) -> set[str]:
    """Convolutions whose results must be as exact as fp32 is, where those of others need not; by error bounds.

    Where none may be less exact the tunables' values know it, and there is nothing to tell apart.
    """
    convolutions = {node.name for node in graph.nodes if node.target in CONVOLUTIONS}
    exact = {name for name in convolutions if by_value.get(name, math.inf) < FULL_BOUND}
    return exact if exact != convolutions else set()


def on_gpu(graph: Graph, settings: GpuSettings, exact: Collection[str] = ()) -> Graph:
    """The same operator in a form that suits a GPU; of convolutions and recurrent layers, ``exact`` ones stay the
    reference's."""
    graph = rows_scanned(_running_products(spell_extremes(graph)), (RUNNING_SUM, RUNNING_PRODUCT))
    if settings.reassociate:
        graph = pools_first(graph, exact)
    if settings.windows:
        graph = spell_windows(graph, bool(settings.channels_last) and not settings.has_own_convolutions)
    if settings.templates:
        graph = fuse_attention(spell_wide_attention(graph))
    if settings.recurrent:
        graph = fuse_recurrent_layers(graph, settings, exact)
    graph = kept_convolutions(graph, exact)
    if settings.has_own_convolutions:
        graph = fuse_convolutions(graph)
    graph = library_convolutions(library_attention(graph), settings.tuned)
    if settings.channels_last and not settings.has_own_convolutions:
        graph = channels_last(graph, settings.channels_last == TRANSPOSED_TOO)
    nodes = list(graph.nodes)
    if settings.reassociate:
        nodes = reassociated(nodes)
    if settings.templates and settings.chain:
        nodes = fuse_chains(nodes, settings.multiprocessors)
    by_name = {node.name: node for node in nodes}
    nodes = [part for node in nodes for part in _vector_product(node, by_name)]
    return Graph(nodes=tuple(nodes), symbols=graph.symbols, guards=graph.guards)


def _running_products(graph: Graph) -> Graph:
    """The graph with running products over the last dimension under the name that has a kernel."""
    nodes = tuple(
        structs.replace(n, target=RUNNING_PRODUCT) if n.target == "aten.cumprod.default" and not n.kwargs else n
        for n in graph.nodes
    )
    return Graph(nodes=nodes, symbols=graph.symbols, guards=graph.guards)


def spell_windows(graph: Graph, channels_last: bool = False) -> Graph:
    """Pooling and depthwise convolutions as elementwise operators on slices.

    A convolution that a norm's statistics read next fuses with nothing behind it. Where channels lie last the library
    has the faster one: 0.8 ms for 25 taps, ours 2.0 (H100). So it has for windows of many taps: a block of ConvNeXt
    with 49 took 2.2 ms in kernels of ours and 0.71 in PyTorch's (H200).
    """
    measured = {name for name, taps in measured_convolutions(graph).items() if channels_last or taps > _FEW_TAPS}
    return spell_depthwise(spell_pools(graph, _lies_well, stores=True), measured)


def _lies_well(window: Window, source: Node) -> bool:
    """Whether a pool's window is small, or such that lanes read it along memory.

    A mean of 16 x 16 takes 0.28 ms, PyTorch's 0.54; of 11 x 11 19.9 and 4.2 ms (H200).
    """
    width = window.size[-1]
    is_row = len(window.size) == 1 or source.values[0].shape[-1] == width
    return math.prod(window.size) <= MOST or is_row or width.bit_count() == 1


def _vector_product(node: Node, nodes: dict[str, Node]) -> list[Node]:
    """``matrix @ vector`` as products added up along the row: it reads the matrix once and that is all."""
    if node.target not in ("aten.mv.default", "aten.mm.default") or not all(isinstance(a, Ref) for a in node.args):
        return [node]
    matrix, vector = (nodes[a.name] for a in node.args if isinstance(a, Ref))
    column = node.target == "aten.mm.default"
    if column and vector.values[0].shape[1] != 1:
        return [node]
    source, right = matrix.values[0], vector.values[0]
    full = with_dtype(source, compute_dtype(source.dtype))
    row, terms = f"{node.name}_row", f"{node.name}_terms"
    across = TensorMeta(shape=(1, *right.shape[:1]), dtype=right.dtype, example=(1, *right.example[:1]))
    return [
        permuted(row, vector.name, (1, 0), across)
        if column
        else call(row, "aten.unsqueeze.default", (Ref(name=vector.name), 0), across),
        call(terms, "aten.mul.Tensor", (Ref(name=matrix.name), Ref(name=row)), full),
        call(node.name, "aten.sum.dim_IntList", (Ref(name=terms), Items(items=(1,)), column), node.values[0]),
    ]
