"""Tensors and numbers as flat vectors, read in chunks."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from ...processes.messages import HOST

_cat, _split, _view, _reshape = torch.cat, torch.Tensor.split, torch.Tensor.view, torch.Tensor.reshape
_detach, _numel = torch._C.TensorBase.detach, torch.Tensor.numel

SMALL = 1 << 14
"""Elements of an answer that a processor compares as fast as an accelerator."""


def flat(value: Any, wide: bool) -> torch.Tensor:
    """``value`` as a contiguous vector, complex numbers as pairs; in float64 if ``wide``."""
    if value is None:
        return torch.empty(0)
    tensor = value.detach() if isinstance(value, torch.Tensor) else torch.tensor([value])
    if isinstance(value, float):
        tensor = tensor.double()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj().contiguous())
    flat = tensor.resolve_neg().contiguous().reshape(-1)
    return flat.double() if wide else flat


def to_main_memory(answers: list[Any], among: Iterable[int]) -> list[Any]:
    """``answers`` with what is small ``among`` them, by index, in main memory: one copy for all of a dtype.

    A network has hundreds of buffers, each of which an accelerator would be waited for many times.
    """
    by_dtype: dict[torch.dtype, list[int]] = defaultdict(list)
    for index in among:
        value = answers[index]
        is_there = not isinstance(value, torch.Tensor) or value.device.type == HOST
        if not is_there and value.layout is torch.strided and value.numel() <= SMALL:
            by_dtype[value.dtype].append(index)
    for indices in by_dtype.values():
        arrived = side_by_side([answers[index] for index in indices], torch.Tensor.cpu)
        for index, answer in zip(indices, arrived, strict=True):
            answers[index] = answer
    return answers


def side_by_side(
    tensors: Sequence[torch.Tensor], move: Callable[[torch.Tensor], torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """Copies of tensors of one dtype and device, in one memory, where one launch puts them all.

    ``move`` may bring that memory elsewhere. A candidate's process uses this, too.
    """
    joined = _cat([_reshape(_detach(tensor), (-1,)) for tensor in tensors])
    parts = _split(joined if move is None else move(joined), [_numel(tensor) for tensor in tensors])
    return [_view(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def chunks_of(vector: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    """Its elements, ``size`` at a time."""
    for begin in range(0, vector.numel(), size):
        yield vector[begin : begin + size]


def rms_of_finite(vector: torch.Tensor, size: int) -> tuple[float, bool]:
    """Root mean square of the finite elements, and whether all are."""
    total, count = 0.0, 0
    for part in chunks_of(vector, size):
        wide = part.double()
        squares = float(torch.dot(wide, wide))
        if not math.isfinite(squares):
            wide = wide[torch.isfinite(wide)]
            squares = float(wide.square().sum())
        total, count = total + squares, count + wide.numel()
    return math.sqrt(total / count) if count else 0.0, count == vector.numel()


def untouched(chunk: torch.Tensor) -> torch.Tensor:
    """Which elements hold exactly what fresh memory was filled with: torch's own pattern, or malloc's byte."""
    if chunk.dtype == torch.bool:
        return torch.zeros_like(chunk)
    raw = chunk.contiguous().view(torch.uint8).reshape(chunk.numel(), -1)
    by_torch = torch.full((1,), math.nan if chunk.is_floating_point() else torch.iinfo(chunk.dtype).max).to(chunk.dtype)
    if not chunk.is_floating_point():
        by_torch = torch.full((1,), torch.iinfo(chunk.dtype).max, dtype=chunk.dtype)
    return (raw == by_torch.view(torch.uint8).to(raw.device)).all(1) | (raw == 0x7F).all(1)


def unravel(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Index of the element at the flat ``position``."""
    index: list[int] = []
    for extent in reversed(shape):
        position, coordinate = divmod(position, extent)
        index.append(coordinate)
    return tuple(reversed(index))


def text_of(value: torch.Tensor) -> str:
    """One number, for people."""
    number = value.item()
    return f"{number:.9g}" if isinstance(number, float) else str(number)
