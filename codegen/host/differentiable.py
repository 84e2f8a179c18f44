"""Writes a ``ModelNew`` that autograd can differentiate, for module problems with a backward pass.

The gradients of the inputs come from the kernels. Those of the parameters, which the problem does not ask for, come
from the plain ATen calls, differentiated by PyTorch, and only where autograd is going to use them.
"""

from collections.abc import Sequence

from msgspec import structs

from ...schemas import Graph, Node, Ref
from ..ir.build import is_float
from ..lowering.call_text import pyname

_CLASS = '''class _Differentiable(torch.autograd.Function):
    """The forward pass of {names} by the kernels; parameters first."""

    @staticmethod
    def forward(ctx, *values):
        written = {written}
        kept = [v.clone() if n in written else v for n, v in enumerate(values)]
        ctx.numbers = [None if isinstance(v, torch.Tensor) else v for v in kept]
        ctx.save_for_backward(*(v if isinstance(v, torch.Tensor) else None for v in kept))
        {arguments} = values
        return _kernels({forward})

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *cotangents):
        values = [n if v is None else v for n, v in zip(ctx.numbers, ctx.saved_tensors)]
        cotangents = [cotangents[place] for place in {floating}]
        {arguments} = values
        {cotangents} = cotangents
        computed = {gradients}
        remaining = iter(computed if isinstance(computed, tuple) else (computed,))
        gradients = [None] * {params} + [next(remaining) if place else None for place in {places}]
        weights = [n for n in range({params}) if ctx.needs_input_grad[n]]
        weights = [n for n in weights if torch._C._will_engine_execute_node(ctx.next_functions[n][0])]
        if weights:
            for n, gradient in zip(weights, _gradients(weights, values, cotangents)):
                gradients[n] = gradient
        return tuple(gradients)


def _gradients(weights, values, cotangents):
    """Of some of the parameters, by PyTorch."""
    with torch.enable_grad():
        values = [v.detach().clone() if n < {params} else v for n, v in enumerate(values)]
        followed = [values[n].requires_grad_() for n in weights]
        {arguments} = values
        results = _aten({forward})
        results = [results[place] for place in {floating}]
        pairs = [(r, c) for r, c in zip(results, cotangents) if r.requires_grad]
        return torch.autograd.grad([r for r, _ in pairs], followed, [c for _, c in pairs], allow_unused=True)
'''


def flat(graph: Graph) -> Graph:
    """The graph with its results as one tuple, as autograd's functions return them."""
    output = graph.nodes[-1]
    text = "(" + "".join(f"r{place}, " for place in range(len(output.args))) + ")"
    return structs.replace(graph, nodes=(*graph.nodes[:-1], structs.replace(output, target=text)))


def differentiable_lines(graph: Graph, backward: Graph) -> list[str]:
    """``_Differentiable``, which calls ``_kernels``, ``_aten`` and ``_backward``."""
    nodes = {node.name: node for node in graph.nodes}
    params = [node for node in graph.nodes if node.op == "param"]
    inputs = [node for node in graph.nodes if node.op == "input"]
    results = [nodes[arg.name] if isinstance(arg, Ref) else None for arg in graph.nodes[-1].args]
    floating = tuple(n for n, node in enumerate(results) if node is not None and _is_floating(node))
    given = [node for node in backward.nodes if node.op == "input"]
    others = [node for node in backward.nodes if node.op == "param"]
    text = _CLASS.format(
        names=", ".join(node.name for node in inputs),
        written=tuple(n for n, node in enumerate([*params, *inputs]) if node.name in graph.nodes[-1].kwargs),
        arguments=_unpacked([*params, *inputs]),
        forward=_listed([*inputs, *params]),
        floating=floating,
        cotangents=_unpacked(given[len(inputs) :]),
        params=len(params),
        gradients=f"_backward({_listed([*given, *others])})",
        places=tuple(bool(node.values) and _is_floating(node) for node in inputs),
    )
    return [*text.splitlines(), "", ""]


def forward_lines(graph: Graph) -> list[str]:
    """Statements of ``ModelNew.forward`` once arguments and parameters are in variables."""
    params = [node for node in graph.nodes if node.op == "param"]
    inputs = [node for node in graph.nodes if node.op == "input"]
    tensors = [node for node in (*inputs, *params) if node.values]
    output = graph.nodes[-1]
    results = "".join(f"r{place}, " for place in range(len(output.args)))
    # Behind a view, autograd can be asked whether it is going to use a parameter's gradient.
    viewed = [f"{pyname(node.name)}.view_as({pyname(node.name)})" for node in params]
    arguments = ", ".join([*viewed, *(pyname(node.name) for node in inputs)])
    return [
        f"if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in ({_listed(tensors)},)):",
        f"    {results}= _Differentiable.apply({arguments})",
        "else:",
        f"    {results}= _kernels({_listed([*inputs, *params])})",
        f"return {output.target or results.removesuffix(', ')}",
    ]


def _is_floating(node: Node) -> bool:
    return is_float(node.values[0].dtype)


def _listed(nodes: Sequence[Node]) -> str:
    return ", ".join(pyname(node.name) for node in nodes)


def _unpacked(nodes: Sequence[Node]) -> str:
    return "".join(f"{pyname(node.name)}, " for node in nodes).rstrip()
