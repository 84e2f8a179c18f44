"""Transfers outputs from a candidate to the reference: the bytes of all tensors, one after the other.

In a memory file, or, where they lie on a device and are large, in a block of its memory: 13 GB took 10 s each way
through main memory. What the candidate's side uses was bound before.
"""

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator, Sequence

import torch

from ...processes.messages import HOST
from ...processes.sealing import seal as _seal
from . import tensor_placement, values
from .device_memory import Block
from .tensor_placement import TensorDevice

LARGE_BYTES = 16 << 20
"""Of all outputs of a call, from which on a block of the device's memory is worth its set-up of half a millisecond."""

_UNREADABLE = 0xFF
_allocate, _file, _close, _tensor = Block.allocate, Block.file, Block.close, Block.tensor
_numel, _element_size = torch._C.TensorBase.numel, torch._C.TensorBase.element_size
_contiguous, _view, _reshape = torch._C.TensorBase.contiguous, torch._C.TensorBase.view, torch.Tensor.reshape
_copy = torch.Tensor.copy_
_synchronize = torch.cuda.synchronize
_groupby = itertools.groupby
_is_small, _joined, _main_memory = tensor_placement.is_small, tensor_placement.joined, tensor_placement.TensorDevice()
_uint8 = torch.uint8


def copy_out(outputs: Sequence[object], tensor_device: TensorDevice) -> int:
    """Copies of the tensors among ``outputs``, all on ``tensor_device``; a descriptor that the caller closes."""
    tensors = [output for output in outputs if type(output) is torch.Tensor]
    size = sum(_numel(tensor) * _element_size(tensor) for tensor in tensors)
    if tensor_device.device.type != HOST and size >= LARGE_BYTES:
        # Without room, or with a driver that cannot do it, main memory will do.
        with contextlib.suppress(OSError):
            return _in_a_block(tensors, size, tensor_device)
    file, position = os.memfd_create("outputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), 0
    for are_small, run in _groupby(tensors, lambda tensor: _is_small(tensor, tensor_device)):
        for tensor in [_joined(list(run))] if are_small else run:
            for address, count in (_main_memory if are_small else tensor_device).elements(tensor):
                values.write_bytes(file, address, count, position)
                position += count
    _seal(file)
    return file


def _in_a_block(tensors: Sequence[torch.Tensor], size: int, tensor_device: TensorDevice) -> int:
    block, position = _with_room(size, tensor_device), 0
    try:
        target = _tensor.__get__(block)
        for tensor in tensors:
            count = _numel(tensor) * _element_size(tensor)
            if count:
                part = target[position : position + count]
                # Element by element of its own type where it can be: then nothing is copied before.
                if position % _element_size(tensor) == 0:
                    _copy(_reshape(_view(part, tensor.dtype), tensor.shape), tensor)
                else:
                    _copy(part, _view(_reshape(_contiguous(tensor), -1), _uint8))
            position += count
        _synchronize(tensor_device.device)
        return _file(block)
    finally:
        _close(block)


def _with_room(size: int, tensor_device: TensorDevice) -> Block:
    try:
        return _allocate(size, tensor_device.device.index or 0)
    except OSError:
        tensor_device.tidy()
        return _allocate(size, tensor_device.device.index or 0)


class Written:
    """What a candidate handed over, as its reader sees it: bytes, all ones where there are none."""

    def __init__(self, file: int, size: int) -> None:
        """``size`` is what all outputs take; ``file`` stays the caller's."""
        self._file = file if stat.S_ISREG(os.fstat(file).st_mode) else -1
        self._block: Block | None = None
        device = tensor_placement.current_device().device
        if self._file < 0 and device.type != HOST:
            # A candidate's process may send anything.
            with contextlib.suppress(OSError):
                self._block = Block.opened(file, size, device.index or 0)

    def close(self) -> None:
        """Let go of the memory; the file stays open."""
        block, self._block = self._block, None
        if block is not None:
            block.close()

    def part(self, position: int, size: int) -> torch.Tensor:
        """Bytes, where this process keeps its tensors. Valid until the next call."""
        if self._file >= 0:
            return tensor_placement.current_device().from_file(self._file, position, size)
        if self._block is None:
            return torch.full((size,), _UNREADABLE, dtype=torch.uint8, device=tensor_placement.current_device().device)
        # A copy: no alignment is promised, and the owner could still change what lies there.
        return self._block.tensor[position : position + size].clone()

    def few(self, position: int, size: int) -> torch.Tensor:
        """Some bytes in main memory; fewer where the file ends too early."""
        if self._file >= 0:
            return torch.tensor(list(os.pread(self._file, size, position)), dtype=torch.uint8)
        return self.part(position, size).cpu()


@contextlib.contextmanager
def written(file: int, size: int) -> Iterator[Written]:
    """A reader of ``file``, closed in the end."""
    reader = Written(file, size)
    try:
        yield reader
    finally:
        reader.close()
