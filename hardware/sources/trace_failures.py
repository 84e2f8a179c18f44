"""Why a call cannot be traced, in one sentence with the line of the user's code, and what helps."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode

from .source_lines import place_of

_TAKING_VALUES = {torch.Tensor.numpy: ".numpy()", torch.Tensor.__array__: "NumPy", torch.Tensor.tolist: ".tolist()"}


class _ValuesTaken(RuntimeError):
    """Values of a tensor were taken out of PyTorch, where no graph has them."""


class _Refusing(TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        way, mode = _TAKING_VALUES.get(func), proxy_tensor.get_proxy_mode()
        # A constant's values are as constant as it is.
        if way and mode is not None and proxy_tensor.has_proxy_slot(args[0], mode.tracer):
            raise _ValuesTaken(way)
        return func(*args, **kwargs or {})


@contextmanager
def refusing_values() -> Iterator[None]:
    """While something is traced: values of inputs and parameters that leave PyTorch would be constants of the graph."""
    with _Refusing():
        yield


def reason_of(error: BaseException, operator: Any) -> str:
    """Why a call of ``operator`` failed, in one sentence."""
    place = place_of(error, of_libraries=True) or _part_of(error, operator)
    if isinstance(error, _ValuesTaken):
        return f"{error} takes its tensors out of PyTorch{place}; use PyTorch's operators"
    if "dynamo-optimized function" in str(error):
        return f"it, or a part of it, is wrapped by torch.compile{place}; give the module that was wrapped"
    if "tracing tensor" in str(error):
        index = "index with `position.view(1)` where a position is a tensor without dimensions, " * ("[" in place)
        return (
            f"it makes Python numbers or conditions of its tensors' values{place}, which no graph can hold; {index}use "
            "torch.where, or search the part that does not"
        )
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{place}: {lines[0] if lines else ''}"


def _part_of(error: BaseException, operator: Any) -> str:
    """`` in its part '0.linear', a Linear``: the innermost one that the error went through."""
    names = {id(part): name for name, part in operator.named_modules()} if isinstance(operator, torch.nn.Module) else {}
    parts = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    inside = [part for part in parts if names.get(id(part))]
    return f" in its part {names[id(inside[-1])]!r}, a {type(inside[-1]).__name__}" if inside else ""


def dropout_way_out(operator: Any, graph: torch.fx.Graph) -> str:
    """How a module does without the dropout that a graph of it has; empty if it has none."""
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or torch.Tag.nondeterministic_seeded not in node.target.tags:
            continue
        names = [argument.name for argument in schema.arguments]
        arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        trains = arguments.get("train", arguments.get("training", "dropout_p" in arguments))
        share = arguments.get("p", arguments.get("dropout", arguments.get("dropout_p", 1)))
        if not trains or not share or arguments.get("num_layers") == 1:
            continue
        name = node.target.overloadpacket.__name__
        if isinstance(operator, torch.nn.Module) and any(part.training for part in operator.modules()):
            return f"it is in training mode, and calls `{name}`; call .eval() on it"
        return f"it calls `{name}` as in training; give that `training=False`, or no probability"
    return ""
