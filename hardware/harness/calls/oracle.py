"""The reference in another precision: in float64 as the oracle, or in a lower one for comparison."""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..tensors.values import mapped, tensors_of

_COMPLEX = {torch.complex64, torch.complex32}
_RAISED = {torch.float32, torch.float16, torch.bfloat16, *_COMPLEX}
_SHORTHANDS = {
    torch.float64: torch.Tensor.double,
    torch.float32: torch.Tensor.float,
    torch.float16: torch.Tensor.half,
    torch.bfloat16: torch.Tensor.bfloat16,
}


def in_float64(call: Callable[..., Any], inputs: list[Any], shake: float = 0.0, seed: int = 0) -> Any:
    """Call with floating inputs, and whatever the code asks for in the inputs' own precision or float32, in float64.

    A conversion to a precision lower than the inputs' (a quantisation) is meant and stays.

    Args:
        call: What to call.
        inputs: Its arguments; they stay as they are, whatever ``call`` does to what it gets.
        shake: Share of its value by which every number of the inputs is changed at most, up or down.
        seed: Of these changes.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() and not tensor.is_complex():
            return tensor.clone()
        if not shake:
            return in_dtype(tensor, torch.float64) if tensor.dtype in _RAISED else tensor.clone()
        # Drawn where it is used: moving as many numbers to a device takes longer than what they are for.
        generator = generators.setdefault(tensor.device, torch.Generator(tensor.device).manual_seed(seed))
        moves = torch.rand(tensor.shape, generator=generator, dtype=torch.float64, device=tensor.device)
        return moves.mul_(2 * shake).add_(1 - shake).mul_(tensor)

    own = {tensor.dtype for tensor in tensors_of(inputs) if tensor.dtype in _RAISED}
    return _in_precision(call, mapped(inputs, wide), own | {torch.float32, torch.complex64}, torch.float64)


def in_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A floating tensor in ``dtype``, a complex one of such parts where there are any as wide; others as they are."""
    if tensor.is_complex():
        return tensor.to(torch.complex128) if dtype is torch.float64 else tensor
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def in_lower(call: Callable[..., Any], inputs: list[Any], dtype: torch.dtype) -> Any:
    """Call with floating inputs, and whatever floating type the code asks for, in ``dtype`` throughout."""
    lowered = mapped(inputs, lambda tensor: tensor.to(dtype) if tensor.dtype in _SHORTHANDS else tensor.clone())
    return _in_precision(call, lowered, set(_SHORTHANDS), dtype)


def _in_precision(call: Callable[..., Any], inputs: list[Any], replaced: set[torch.dtype], dtype: torch.dtype) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with _Instead({old: torch.complex128 if old in _COMPLEX else dtype for old in replaced}):
            return call(*inputs)
    finally:
        torch.set_default_dtype(before)


class _Instead(TorchFunctionMode):  # type: ignore[misc]
    """Reads every request for a dtype as one for another."""

    def __init__(self, dtypes: dict[torch.dtype, torch.dtype]) -> None:
        super().__init__()
        self._dtypes = dtypes
        self._methods = {_SHORTHANDS[old]: _SHORTHANDS[new] for old, new in dtypes.items() if old in _SHORTHANDS}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._methods:
            return self._methods[func](*args, **(kwargs or {}))
        return func(*map(self._read, args), **{key: self._read(value) for key, value in (kwargs or {}).items()})

    def _read(self, value: Any) -> Any:
        return self._dtypes.get(value, value) if isinstance(value, torch.dtype) else value
