"""Convolutions that stay with the library: their biases join what follows, their algorithm is chosen by measuring."""

from collections import defaultdict
from collections.abc import Collection

from msgspec import structs

from ...hardware.machine.work import operands
from ...schemas import Arg, Expr, Graph, Node, Ref, TensorMeta
from ..ir.build import is_float
from .calls import call, viewed
from .pointwise import is_pointwise

_TARGET = "aten.convolution.default"
TUNED = "aten._convolution.default"
"""The operator that takes as arguments what ``convolution`` reads from global settings."""
CONVOLUTION_LAST = "ks.convolution_last"
"""A library convolution whose result has its channels last; its arguments are those of ``aten.convolution``, or of
``aten._convolution``, and its input is a view with the usual order of dimensions."""
CONVOLUTIONS = (_TARGET, TUNED)
TF32_PERMITTED = '''def _constant(function):
    """What torch.compiler.assume_constant_result does, after importing the compiler: that takes five seconds."""
    function._dynamo_marked_constant = True
    return function


@_constant
def _tf32_permitted():
    """Whether torch's switches permit convolutions in TF32."""
    switches = getattr(torch.backends.cudnn, "conv", None)
    return torch.backends.cudnn.allow_tf32 if switches is None else switches.fp32_precision == "tf32"'''
"""What a candidate asks that calls :data:`TUNED`. Not the older switch alone: reading it raises where a program has set
convolutions and recurrent layers apart by the newer ones (torch 2.9), which torch.compile cannot trace."""
_ALLOWED = Expr(value="_tf32_permitted()")
"""Whether a convolution may run in TF32: the same answer that the reference has."""
_MEASURED = Expr(value="torch.backends.cudnn.benchmark")
"""Whether its algorithm is measured: the same."""


def followed_convolutions(graph: Graph) -> Graph:
    """The graph with the biases of convolutions on a processor where elementwise operators read all of the result.

    Some of PyTorch's kernels write the bias into the whole result first, others add it for nothing. Half precision is
    rounded once in both, and keeps its bias.
    """
    users: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for name in operands(node):
            users[name].append(node)
    nodes = {node.name: node for node in graph.nodes}
    new_nodes: list[Node] = []
    for node in graph.nodes:
        is_taken = (
            node.target == _TARGET
            and node.values[0].dtype in ("float32", "float64")
            and bool(users[node.name])
            and all(is_pointwise(user.target) for user in users[node.name] if user.op != "size")
        )
        new_nodes += _without_bias(node, nodes) if is_taken else [node]
    return structs.replace(graph, nodes=tuple(new_nodes))


def library_convolutions(graph: Graph, tuned: bool) -> Graph:
    """The graph with every convolution of the library without its bias, which PyTorch would add in a pass of its own.

    Args:
        graph: whatever is to have a kernel of ours is none of ``aten.convolution`` any more.
        tuned: have cuDNN measure its algorithms for a shape once, instead of going by its heuristics.
    """
    return _left_to_the_library(graph, {n.name for n in graph.nodes}, True if tuned else None)


def kept_convolutions(graph: Graph, names: Collection[str]) -> Graph:
    """The graph with the named convolutions as the reference has them, in order of memory and algorithm; biases aside.

    What is left of ``aten.convolution`` then may be changed.
    """
    return _left_to_the_library(graph, names, _MEASURED)


def is_kept(node: Node) -> bool:
    """Whether :func:`kept_convolutions` wrote the node."""
    return node.target == TUNED and node.args[9] == _MEASURED


def _left_to_the_library(graph: Graph, names: Collection[str], benchmark: Arg) -> Graph:
    """``benchmark`` is whether the algorithm is measured; None: the operator stays as it is, biases aside."""
    nodes = {node.name: node for node in graph.nodes}
    new_nodes: list[Node] = []
    for node in graph.nodes:
        is_taken = node.target == _TARGET and node.name in names
        parts = _without_bias(node, nodes) if is_taken else [node]
        is_explicit = is_taken and benchmark is not None
        new_nodes += [_explicit(p, benchmark) if is_explicit and p.target == _TARGET else p for p in parts]
    return structs.replace(graph, nodes=tuple(new_nodes))


def _without_bias(node: Node, nodes: dict[str, Node]) -> list[Node]:
    result, bias = node.values[0], node.args[2]
    if not isinstance(bias, Ref) or not is_float(result.dtype):
        return [node]
    name, ones = f"{node.name}_products", (1,) * (len(result.shape) - 2)
    channels = nodes[bias.name].values[0]
    meta = TensorMeta(shape=(1, *channels.shape, *ones), dtype=channels.dtype, example=(1, *channels.example, *ones))
    return [
        structs.replace(node, name=name, args=(*node.args[:2], None, *node.args[3:])),
        viewed(f"{node.name}_bias", bias.name, meta),
        call(node.name, "aten.add.Tensor", (Ref(name=name), Ref(name=f"{node.name}_bias")), result),
    ]


def _explicit(node: Node, benchmark: Arg) -> Node:
    # Benchmark, deterministic, cudnn, tf32.
    args = (*node.args[:9], benchmark, False, True, _ALLOWED)
    return structs.replace(node, target=TUNED, args=args)
