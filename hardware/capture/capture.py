"""Captures a PyTorch function or module as a :class:`Graph`: ATen operators with symbolic shapes.

Runs in a child process that may import torch; nothing here imports it before :func:`capture` is called.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...schemas import Graph, ProblemError
from .convert import convert
from .decompositions import decompositions
from .nested import Inputs, inputs_of, structure_of
from .reasons import check_inputs, why_not_captured
from .recurrent import stand_ins
from .results import last_results
from .sizes import is_for
from .state import UnwritableState
from .trace import Call, Traced, is_floating, plain_call, trace_calls, trace_export

Differentiated = Callable[[Callable[..., Any]], Callable[..., Any]]


def get_ready() -> None:
    """Do once what every process that captures would do anew: a quarter of a second. Touches no tensor."""
    stand_ins()  # operators, by whose number what is taken apart is known
    decompositions()


def trace_once() -> None:
    """Have a first trace import parts of sympy and fill its caches for all processes that are forked from this one.

    That is a tenth of a second each. Touches no tensor's memory.
    """
    import torch

    with suppress(ProblemError):
        capture(lambda x: x / x.pow(2).mean(-1, keepdim=True), [torch.empty(6, 8, device="meta")])


def capture(target: Callable[..., Any], example_inputs: Sequence[Any], names: Sequence[str] | None = None) -> Graph:
    """Trace ``target(*example_inputs)`` into a graph whose sizes are symbols, without knowing which sizes may vary.

    Args:
        target: function or ``nn.Module`` (in the mode it is to run in).
        example_inputs: tensors and numbers at the main shape, or lists, tuples, dictionaries and objects that hold
            some. Integers become symbols, other numbers are baked in.
        names: of the inputs; by default the signature's.

    Raises:
        ProblemError: it cannot be traced, or what it does cannot be written as a graph; one sentence that says why.
    """
    labels = list(names) if names is not None else _names(target, len(example_inputs))
    inputs = inputs_of(list(example_inputs), labels)
    graph = _captured(target, inputs.flat, inputs.names, inputs.call(plain_call), may_export=True)
    return inputs.graph(graph)


def capture_elsewhere(
    target: Callable[..., Any], graph: Graph, others: Iterable[Sequence[Any]], names: Sequence[str]
) -> tuple[Graph, ...]:
    """Trace ``target`` at those of the inputs ``others`` at whose sizes ``graph``, and what was traced for the ones
    before, is another operator. What cannot be traced there is left out; names of what is computed differ from graph
    to graph.
    """
    graphs: list[Graph] = []
    for other in others:
        inputs = inputs_of(list(other), list(names))
        if any(_is_for(earlier, inputs) for earlier in (graph, *graphs)):
            continue
        prefix = f"elsewhere{len(graphs)}_"
        with suppress(ProblemError):
            further = _captured(target, inputs.flat, inputs.names, inputs.call(plain_call), prefix, may_export=True)
            graphs.append(inputs.graph(further))
    return tuple(graphs)


def _is_for(graph: Graph, inputs: Inputs) -> bool:
    return structure_of(graph) == inputs.structure and is_for(graph, _sizes(inputs))


def _sizes(inputs: Inputs) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for name, value in zip(inputs.names, inputs.flat, strict=True):
        if hasattr(value, "shape"):
            sizes[name] = tuple(value.shape)
        elif isinstance(value, int | float):
            sizes[name] = value
    return sizes


def capture_backward(
    target: Callable[..., Any], differentiated: Differentiated, example_inputs: Sequence[Any], names: Sequence[str]
) -> tuple[Graph, Graph]:
    """Trace the forward and the backward pass of ``target`` together.

    Args:
        target: as for :func:`capture`.
        differentiated: makes of ``target`` a function of its inputs and a tuple of cotangents, which gives the outputs
            and, behind them, the gradient by every floating input.
        example_inputs: the inputs and, last, the cotangents.
        names: of the inputs; the last one is the cotangents'.

    Returns:
        The graph of both, and that of the gradients alone. The cotangents are inputs of both, one after the other.

    Raises:
        ProblemError: as for :func:`capture`.
    """
    *inputs, cotangents = example_inputs
    labels = [*names[:-1], *(_unused(f"cotangent_{place}", names) for place in range(len(cotangents)))]

    def both(function: Callable[..., Any], values: list[Any]) -> Any:
        return differentiated(function)(*values[: len(inputs)], tuple(values[len(inputs) :]))

    joint = _captured(target, [*inputs, *cotangents], labels, both, "backward_")
    return joint, last_results(joint, sum(map(is_floating, inputs)))


def _captured(
    target: Any, inputs: list[Any], labels: list[str], call: Call, prefix: str = "", *, may_export: bool = False
) -> Graph:
    check_inputs(inputs, labels)
    tracers: list[Callable[..., Traced]] = [partial(trace_calls, types=True), partial(trace_calls, types=False)]
    if may_export:
        tracers.append(trace_export)
    errors: list[Exception] = []
    for trace in tracers:
        try:
            return convert(trace(target, inputs, labels, call), prefix)
        except UnwritableState:
            raise
        except Exception as error:  # noqa: BLE001 - any failure of tracing leads to the next tracer, and is reported
            errors.append(error)
    # A reference may mind `float` and `int` of ours: why it was not traced with them says nothing.
    raise ProblemError(why_not_captured(errors[1:])) from errors[1]


def _unused(name: str, names: Sequence[str]) -> str:
    return _unused(f"{name}_", names) if name in names else name


def _names(target: Callable[..., Any], count: int) -> list[str]:
    function = getattr(target, "forward", target)
    parameters = list(inspect.signature(function).parameters)
    return [parameters[i] if i < len(parameters) else f"arg{i}" for i in range(count)]
