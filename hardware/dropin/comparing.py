"""Part of every finished file: how far apart two results are."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

IN_FP32, IN_TF32 = (1e-6, 1e-3), (1e-3, 0.1)
"""What a submodule keeps is nothing but rounding where it is smaller than the first share of the largest like it beside
it: such a running mean errs relative to the second share."""
CHUNK, DEVICE_CHUNK = 1 << 18, 1 << 24
"""Elements that are compared at a time. In main memory more would be written and read again a dozen times; a device is
waited for after each."""


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """``value`` with every tensor in it changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(mapped(item, change) for item in value)
    return {key: mapped(item, change) for key, item in value.items()} if isinstance(value, dict) else value


def copied(inputs: list[Any]) -> list[Any]:
    """Inputs of their own."""
    return [mapped(value, lambda tensor: tensor.detach().clone()) for value in inputs]


def _kind_of(name: str, value: Any) -> tuple[str, Any]:
    """What tensors have in common whose sizes are compared: the submodule that keeps them, and the shape."""
    return name.removeprefix("state ").rpartition(".")[0], getattr(value, "shape", None)


def rounding(states: list[tuple[str, Any]], shares: tuple[float, float]) -> list[float]:
    """Of each value what its errors are relative to if it is nothing but rounding, by such shares; 0 if it is more."""
    nothing, next_to = shares
    sizes: dict[tuple[str, Any], float] = {}
    for name, value in states:
        is_own = isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
        if is_own and value.dtype is torch.float32:
            kind = _kind_of(name, value)
            sizes[kind] = max(sizes.get(kind, 0.0), _typical(value))
    beside = [(value, sizes.get(_kind_of(name, value), 0.0)) for name, value in states]
    return [next_to * size if size and _typical(value) < nothing * size else 0.0 for value, size in beside]


def cotangents(ends: list[torch.Tensor]) -> list[torch.Tensor]:
    """Random tensors like ``ends``, the same each time; drawn where they are, which takes no time on a device."""
    generators = {end.device: torch.Generator(end.device).manual_seed(1) for end in ends}
    return [torch.randn(end.shape, generator=generators[end.device], device=end.device).to(end) for end in ends]


def error_of(expected: Any, answer: Any, least: float = 0.0) -> float:
    """Largest error relative to the element and to the typical one, or to ``least`` if that is more.

    Infinite where the form differs.
    """
    if not isinstance(expected, torch.Tensor):
        if expected is None or isinstance(expected, str | bool):
            return 0.0 if expected == answer else math.inf
        expected, answer = torch.tensor(expected), torch.tensor(answer) if isinstance(answer, int | float) else None
    if not isinstance(answer, torch.Tensor) or answer.shape != expected.shape or answer.dtype != expected.dtype:
        return math.inf
    if not (expected.is_floating_point() or expected.is_complex()):
        return 0.0 if torch.equal(expected, answer) else math.inf
    typical = max(least, _typical(expected))
    worst = [_largest_error(one, other, typical) for one, other in zip(_chunks(expected), _chunks(answer), strict=True)]
    return max((error if error == error else math.inf for error in worst), default=0.0)


def _typical(expected: torch.Tensor) -> float:
    """The root mean square of those that are finite."""
    count, squares = 0, 0.0
    for chunk in _chunks(expected):
        finite = chunk.isfinite()
        count += int(finite.sum())
        squares += float(chunk.masked_fill(~finite, 0.0).abs().square().sum())
    return math.sqrt(squares / max(1, count))


def _chunks(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Its elements, some at a time, in double precision."""
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    length = CHUNK if tensor.device.type == "cpu" else DEVICE_CHUNK
    return (chunk.to(wide) for chunk in tensor.detach().reshape(-1).split(length))


def _largest_error(expected: torch.Tensor, answer: torch.Tensor, typical: float) -> float:
    """As :func:`error_of`, of some elements; NaN where one of two is."""
    same = (expected == answer) | (expected.isnan() & answer.isnan())
    errors = (expected - answer).abs() / (expected.abs() + typical).clamp_min(1e-300)
    return float(errors.masked_fill(same, 0.0).max()) if errors.numel() else 0.0
