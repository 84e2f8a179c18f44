"""Outputs as the process that made them describes them, and a few of their elements.

What it uses of torch was bound before any candidate is imported.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from ..messages.commands import Output
from . import tensor_placement, values
from .tensor_placement import TensorDevice

PROBES = 64
"""Elements of an output that are read at once when it is handed over, from the end to the beginning."""

_LONGEST_NAME = 200
Probe = tuple[bytes, ...]

_LARGEST_INT = 1 << 63
"""What a message can carry."""

_numel, _element_size = torch._C.TensorBase.numel, torch._C.TensorBase.element_size
_data_ptr, _string_at = torch._C.TensorBase.data_ptr, ctypes.string_at
_is_small, _joined = tensor_placement.is_small, tensor_placement.joined
_untyped_storage = torch.Tensor.untyped_storage
_is_conj, _is_neg = torch.Tensor.is_conj, torch.Tensor.is_neg


def name_of(kind: type) -> str:
    """Its qualified name, cut: one of 40 megabytes kept the supervisor's event loop for 80 ms."""
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name[:_LONGEST_NAME]


def describe(output: Any, tensor_device: TensorDevice) -> Output:
    """What it is, and where it lies."""
    kind = type(output)
    name = name_of(kind)
    if kind is torch.Tensor and (output.device != tensor_device.device or output.layout != torch.strided):
        return Output(kind="other", type_name=f"{name} on {output.device} with layout {output.layout}")
    if kind is torch.Tensor and (_is_conj(output) or _is_neg(output)):
        # Its memory is read by others, who would take it for the answer.
        return Output(kind="other", type_name=f"{name} that is yet to be conjugated or negated (resolve_conj does it)")
    if kind is torch.Tensor:
        storage = _untyped_storage(output)
        return Output(
            kind="tensor",
            type_name=name,
            dtype=values.dtype_name(output.dtype),
            shape=tuple(output.shape),
            stride=output.stride(),
            begin=storage.data_ptr(),
            end=storage.data_ptr() + storage.nbytes(),
        )
    if kind in (bool, float) or (kind is int and -_LARGEST_INT <= output < _LARGEST_INT):
        return Output(kind=kind.__name__, type_name=name, value=output)
    return Output(kind="none" if output is None else "other", type_name=name)


def probes(outputs: Sequence[Any], tensor_device: TensorDevice) -> list[Probe]:
    """Bytes of elements spread over each output, the last first; what is small on an accelerator is read together."""
    small = [output for output in outputs if _is_small(output, tensor_device)]
    raw, position = _joined(small) if small else None, 0
    read: list[Probe] = []
    for output in outputs:
        if raw is not None and _is_small(output, tensor_device):
            size, start = _element_size(output), _data_ptr(raw) + position
            read.append(tuple(_string_at(start + size * index, size) for index in _probed(output)))
            position += size * _numel(output)
        else:
            read.append(_probe(output, tensor_device))
    return read


def _probe(output: Any, tensor_device: TensorDevice) -> Probe:
    if type(output) is not torch.Tensor or output.device != tensor_device.device or output.layout != torch.strided:
        return ()
    if _numel(output) == 0:
        return ()
    shape, stride = output.shape, output.stride()
    return tensor_device.read(output, [_offset(index, shape, stride) for index in _probed(output)])


def _probed(output: torch.Tensor) -> list[int]:
    """Which elements, in row-major order."""
    count = min(PROBES, _numel(output))
    return [index * (_numel(output) - 1) // max(count - 1, 1) for index in range(count - 1, -1, -1)]


def _offset(flat: int, shape: Sequence[int], stride: Sequence[int]) -> int:
    """Offset in elements of the ``flat``-th element in row-major order."""
    offset = 0
    for extent, step in zip(reversed(shape), reversed(stride), strict=True):
        flat, index = divmod(flat, extent)
        offset += index * step
    return offset
