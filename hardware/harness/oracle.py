"""The reference in float64: what is right, as well as it can be known."""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_RAISED = {torch.float32, torch.float16, torch.bfloat16}


def in_float64(call: Callable[..., Any], inputs: list[Any]) -> Any:
    """Call with floating inputs, and whatever the code asks for in the inputs' own precision or float32, in float64.

    A conversion to a precision lower than the inputs' (a quantisation) is meant and stays.
    """
    own = {tensor.dtype for tensor in _tensors(inputs) if tensor.dtype in _RAISED}
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Raise(own | {torch.float32}):
            return call(*_map_tensors(inputs, _double))
    finally:
        torch.set_default_dtype(before)


class _Raise(TorchFunctionMode):  # type: ignore[misc]
    """Reads every request for one of ``dtypes`` as one for float64."""

    def __init__(self, dtypes: set[torch.dtype]) -> None:
        super().__init__()
        self._dtypes = dtypes
        shorthands = {torch.float32: "float", torch.float16: "half", torch.bfloat16: "bfloat16"}
        self._methods = {getattr(torch.Tensor, shorthands[dtype]) for dtype in dtypes}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._methods:
            return torch.Tensor.double(*args, **(kwargs or {}))
        return func(*map(self._raised, args), **{key: self._raised(value) for key, value in (kwargs or {}).items()})

    def _raised(self, value: Any) -> Any:
        return torch.float64 if isinstance(value, torch.dtype) and value in self._dtypes else value


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.dtype in _RAISED else tensor.clone()


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    if isinstance(value, dict):
        return _tensors(list(value.values()))
    return []


def _map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(_map_tensors(item, change) for item in value)
    if isinstance(value, dict):
        return {key: _map_tensors(item, change) for key, item in value.items()}
    return value
