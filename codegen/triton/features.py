"""Which operations a plan's kernels contain on a GPU: a tunable that changes nothing is left out of the search."""

from ...schemas import Graph
from ..ir.loops import Kernel, SpecialKernel
from ..ir.poly import product
from ..ir.scalar import COSTLY, walk_all
from ..lowering.channels_last import is_taken_transposed
from ..lowering.library_convolutions import CONVOLUTIONS
from ..lowering.normal import VARIANCES
from ..lowering.online import online_pairs
from ..lowering.plan import Plan
from ..lowering.pointwise import base_name
from .chain import CHAIN
from .convolution import CONVOLUTION
from .prepare import Sizes, prepare
from .products import is_product
from .recurrent_layers import LAYERS
from .rewrites import on_gpu, spell_windows
from .source import TEMPLATES
from .tunables import GpuFeatures, GpuSettings

_CHEAP = {"div", "reciprocal", "floor_div", "remainder", "trunc_div"}
_SHORT = 8192
"""Rows up to this length fit a program's registers in any case."""


def gpu_features(graph: Graph, plan: Plan) -> GpuFeatures:
    """Read the features off a plan made with the default settings."""
    sizes = Sizes({name: source.example for name, source in graph.symbols.items()})
    loops = [k for k in plan.kernels if isinstance(k, Kernel)]
    rows = [k for k in loops if k.reduced is not None]
    values = list(walk_all(root for k in plan.kernels for root in k.roots()))
    lengths = [sizes.of(product(k.dims[d] for d in k.inner)) for k in rows]
    counts = [sizes.of(product(k.dims[d] for d in k.outer)) for k in rows]
    tiles = [tile.name for k in rows for tile in prepare(k, sizes, GpuSettings()).kernels]
    products = [n for n in plan.externs if is_product(n) or (n.target in TEMPLATES and n.target != LAYERS)]
    stored = [s.buffer.dtype for k in loops for s in k.stores.values() if s.buffer.dtype.startswith(("float", "bf"))]
    library = [node for node in plan.externs if base_name(node.target) in ("convolution", "_convolution")]
    own = [node for node in products if node.target == CONVOLUTION]
    transposed = [node for node in graph.nodes if node.target in CONVOLUTIONS and is_taken_transposed(node)]
    return GpuFeatures(
        rows=bool(rows),
        loops=any(length > _SHORT for length in lengths),
        pointwise=any(k.reduced is None for k in loops) or any(isinstance(k, SpecialKernel) for k in plan.kernels),
        tiles=any(k.reduced is None and len(k.dims) > 1 for k in loops),
        variance=any(n.target in VARIANCES for n in graph.nodes),
        softmax=any(online_pairs(k) for k in rows),
        transcendental=any(v.op in COSTLY and v.op not in _CHEAP for v in values),
        several_anchors=len(loops) > 1 or any(len(k.accumulations) + len(k.stores) > 2 for k in rows),
        full=any(count < 1024 for count in counts),
        half=all(dtype in ("float16", "bfloat16") for dtype in stored),
        products=bool(products),
        matrices=any(n.target != CONVOLUTION for n in products),
        float32_matrices=any(n.target != CONVOLUTION and n.values[0].dtype == "float32" for n in products),
        float32_convolutions=any(node.values[0].dtype == "float32" for node in own),
        convolutions=bool(own),
        windows=spell_windows(graph) != graph,
        library_convolutions=bool(library),
        convolution_count=len(library) + len(own),
        transposed_convolutions=len(transposed),
        only_transposed=len(transposed) == len(library) + len(own),
        chains=on_gpu(graph, GpuSettings()) != on_gpu(graph, GpuSettings(reassociate=False)),
        small_chains=any(node.target == CHAIN for node in products),
        row_length=max(lengths, default=0),
        parts=any(name.endswith("_part") for name in tiles),
        recurrent=any(node.target == LAYERS for node in plan.externs),
        beside_recurrent=bool(products) or any(root.op != "const" for k in plan.kernels for root in k.roots()),
    )
