"""Captures a PyTorch function or module as a :class:`Graph`: ATen operators with symbolic shapes.

Runs in a child process that may import torch; nothing here imports it before :func:`capture` is called.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..schemas import Graph, ProblemError
from .capture_convert import convert
from .capture_reasons import check_inputs, why_not_captured
from .capture_state import UnwritableState
from .capture_trace import trace_calls, trace_export
from .work import count_work

__all__ = ["capture", "count_work"]


def capture(target: Callable[..., Any], example_inputs: Sequence[Any], names: Sequence[str] | None = None) -> Graph:
    """Trace ``target(*example_inputs)`` into a graph whose sizes are symbols, without knowing which sizes may vary.

    Args:
        target: function or ``nn.Module`` (in the mode it is to run in).
        example_inputs: tensors and numbers at the main shape. Integers become symbols, other numbers are baked in.
        names: of the inputs; by default the signature's.

    Raises:
        ProblemError: it cannot be traced, or what it does cannot be written as a graph; one sentence that says why.
    """
    inputs = list(example_inputs)
    labels = list(names) if names is not None else _names(target, len(inputs))
    check_inputs(inputs, labels)
    errors: list[Exception] = []
    # A reference that minds such `float` and `int` is traced with its own; what fails then, too, is reported below.
    for trace in (partial(trace_calls, types=True), partial(trace_calls, types=False), trace_export):
        try:
            return convert(trace(target, inputs, labels))
        except UnwritableState:
            raise
        except Exception as error:  # noqa: BLE001 - any failure of tracing leads to the next tracer, and is reported
            errors.append(error)
    raise ProblemError(why_not_captured(errors[1:])) from errors[1]


def _names(target: Callable[..., Any], count: int) -> list[str]:
    function = getattr(target, "forward", target)
    parameters = list(inspect.signature(function).parameters)
    return [parameters[i] if i < len(parameters) else f"arg{i}" for i in range(count)]
