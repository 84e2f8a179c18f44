"""Recurrent layers stay whole: PyTorch would take them apart step by step, for one length alone, or into operators that
only processors have.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

NAMESPACE = "kernelswarm"
"""Of the operators that stand for PyTorch's own in a trace; a graph has the latter (:func:`original`)."""

_LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_CAST_IN_MAIN_MEMORY = {"aten::lstm", "aten::rnn_tanh", "aten::rnn_relu"}
"""What autocast runs in a shorter type there."""


def original(name: str) -> str:
    """The target of the operator of PyTorch that ``name`` of :data:`NAMESPACE` stands for."""
    return f"aten.{name}.input"


@contextmanager
def recurrent_layers_whole() -> Iterator[None]:
    """While something is traced, recurrent layers are one operator each.

    Where gradients are recorded, or numbers are drawn between the layers, they are taken apart as on every device.
    """
    import torch

    operators = stand_ins()
    with ExitStack() as stack:
        for name in _LAYERS:
            operator = getattr(torch.ops.aten, name).input
            function = functools.partial(_whole, operator, operators[name])
            kernels = {torch._C.DispatchKey.CompositeImplicitAutograd: function}
            stack.enter_context(mock.patch.dict(operator.py_kernels, kernels))
            operator._dispatch_cache.clear()
            stack.callback(operator._dispatch_cache.clear)
        yield


def _whole(operator: Any, stand_in: Callable[..., Any], *arguments: Any) -> Any:
    import torch

    dropout, train = arguments[5:7]
    if torch.is_grad_enabled() or (train and dropout > 0):
        with torch.backends.mkldnn.flags(enabled=False):
            return operator._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *arguments)
    if torch.is_autocast_enabled("cpu") and operator._schema.name in _CAST_IN_MAIN_MEMORY:
        arguments = _cast(arguments, torch.get_autocast_dtype("cpu"))
    return stand_in(*arguments)


def _cast(value: Any, dtype: Any) -> Any:
    """As autocast does, which knows no stand-in: every tensor in ``value`` in another type."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype != torch.float64 else value
    return type(value)(_cast(item, dtype) for item in value) if isinstance(value, list | tuple) else value


@functools.cache
def stand_ins() -> dict[str, Callable[..., Any]]:
    """An operator for each layer, which no trace takes apart."""
    import torch

    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    for name in _LAYERS:
        schema = str(getattr(torch.ops.aten, name).input._schema)
        library.define(schema.replace(f"aten::{name}.input", name))
        library.impl(name, getattr(torch._VF, name), "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", _shapes, lib=library)
    operators = getattr(torch.ops, NAMESPACE)
    _kept.append(library)
    return {name: getattr(operators, name).default for name in _LAYERS}


_kept: list[Any] = []
"""PyTorch forgets operators whose library nobody holds."""


def _shapes(input: Any, hx: Any, params: Any, *settings: Any) -> Any:
    """The output, and the last state of every layer and direction."""
    states = hx if isinstance(hx, list | tuple) else [hx]
    directions = 2 if settings[4] else 1
    output = input.new_empty((input.shape[0], input.shape[1], directions * states[0].shape[2]))
    return output, *(state.new_empty(state.shape) for state in states)
