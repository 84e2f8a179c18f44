"""Copies large data between main memory and a device: through page-locked buffers, with all threads.

A plain copy of pageable memory runs in one thread, at a fraction of what the bus carries. What this module uses of
torch was bound before any candidate is imported.
"""

import ctypes
import mmap
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from ...processes.messages import HOST

STAGED_BYTES = 32 << 20
"""Of one buffer. What is smaller is copied directly."""
READERS = 4
"""Threads that read a file: one alone reads no faster than it copies."""

_empty, _frombuffer, _copy = torch.empty, torch.frombuffer, torch.Tensor.copy_
_data_ptr = torch._C.TensorBase.data_ptr
_to, _equal = torch._C.TensorBase.to, torch.equal
_uint8 = torch.uint8
_Event = torch.cuda.Event
_record, _wait = torch.cuda.Event.record, torch.cuda.Event.synchronize
_synchronize = torch.cuda.synchronize
_preadv = os.preadv


def host_bytes(address: int, size: int) -> torch.Tensor:
    """``size`` bytes of main memory at ``address``, as a tensor."""
    return _frombuffer((ctypes.c_char * size).from_address(address), dtype=_uint8)


def write_by_threads(file: int, address: int, size: int, position: int) -> None:
    """Write main memory into a memory file through a mapping: its fresh pages are made by all threads, not by one."""
    begin = position // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    if os.fstat(file).st_size < position + size:
        os.ftruncate(file, position + size)
    with mmap.mmap(file, position + size - begin, offset=begin) as window:
        target = _frombuffer(window, dtype=_uint8, offset=position - begin)
        _copy(target, host_bytes(address, size))
        del target


def _buffer(size: int, locked: bool) -> torch.Tensor:
    try:
        return _empty(size, dtype=_uint8, pin_memory=locked)
    except RuntimeError:
        # Not everybody may lock pages. What goes through the others is copied once more, and otherwise the same.
        return _empty(size, dtype=_uint8)


class Staging:
    """Two buffers. While one is on its way, the other is filled or emptied."""

    def __init__(self, device: torch.device, size: int = STAGED_BYTES) -> None:
        self._device = device
        self._is_apart = device.type != HOST
        self._size = size
        self._buffers = [_buffer(size, self._is_apart) for _ in range(2)]
        self._done: list[Any] = [_Event() if self._is_apart else None for _ in range(2)]
        self._readers = ThreadPoolExecutor(READERS)

    def up(self, address: int, target: torch.Tensor) -> None:
        """Copy main memory at ``address`` into ``target``, bytes on the device, and wait until it is there."""
        for turn, (begin, size) in enumerate(self._parts(target.numel())):
            _copy(target[begin : begin + size], self._filled(turn, address + begin, size), non_blocking=True)
            self._mark(turn)
        self._finish()

    def same(self, address: int, tensor: torch.Tensor) -> bool:
        """Whether ``tensor``, bytes on the device, holds what lies in main memory at ``address``."""
        for turn, (begin, size) in enumerate(self._parts(tensor.numel())):
            on_device = _to(self._filled(turn, address + begin, size), self._device, non_blocking=True)
            self._mark(turn)
            if not _equal(on_device, tensor[begin : begin + size]):
                return False
        return True

    def down(self, source: torch.Tensor) -> Iterator[tuple[int, int]]:
        """Address and size, one after the other, of what lies in ``source``, bytes on the device.

        Each is valid until the next one is asked for.
        """
        before: tuple[int, int] | None = None
        for turn, (begin, size) in enumerate(self._parts(source.numel())):
            _copy(self._buffers[turn % 2][:size], source[begin : begin + size], non_blocking=True)
            self._mark(turn)
            if before is not None:
                yield self._arrived(*before)
            before = turn, size
        if before is not None:
            yield self._arrived(*before)

    def read(self, file: int, position: int, size: int) -> torch.Tensor:
        """``size`` bytes at ``position`` of a file, on the device; ones where it ends too early."""
        target = _empty(size, dtype=_uint8, device=self._device)
        for turn, (begin, count) in enumerate(self._parts(size)):
            self._await(turn)
            buffer = self._buffers[turn % 2][:count]
            self._read_into(file, position + begin, buffer)
            _copy(target[begin : begin + count], buffer, non_blocking=True)
            self._mark(turn)
        self._finish()
        return target

    def _read_into(self, file: int, position: int, buffer: torch.Tensor) -> None:
        view = memoryview((ctypes.c_char * buffer.numel()).from_address(_data_ptr(buffer))).cast("B")
        step = -(-len(view) // READERS)

        def read(begin: int) -> None:
            part = view[begin : begin + step]
            got = _preadv(file, [part], position + begin)
            part[got:] = b"\xff" * (len(part) - got)

        list(self._readers.map(read, range(0, len(view), step)))

    def _parts(self, size: int) -> Iterator[tuple[int, int]]:
        for begin in range(0, size, self._size):
            yield begin, min(self._size, size - begin)

    def _filled(self, turn: int, address: int, size: int) -> torch.Tensor:
        self._await(turn)
        buffer = self._buffers[turn % 2][:size]
        _copy(buffer, host_bytes(address, size))
        return buffer

    def _arrived(self, turn: int, size: int) -> tuple[int, int]:
        self._await(turn)
        return int(_data_ptr(self._buffers[turn % 2])), size

    def _mark(self, turn: int) -> None:
        if self._is_apart:
            _record(self._done[turn % 2])

    def _await(self, turn: int) -> None:
        if self._is_apart:
            _wait(self._done[turn % 2])

    def _finish(self) -> None:
        if self._is_apart:
            _synchronize(self._device)
