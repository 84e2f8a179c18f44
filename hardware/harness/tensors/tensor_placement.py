"""The device of a child's tensors: main memory, or one accelerator.

A child sets its device before it runs anything of a problem's or a candidate's. What it then uses of torch was
bound here before, so that a candidate cannot get between by patching a module.
"""

import ctypes
import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ...processes.messages import HOST
from .fingerprint import Fingerprint, Fingerprints
from .staging import STAGED_BYTES, Staging, host_bytes

_libc = ctypes.CDLL(None)
_memcmp = _libc.memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_memmove = ctypes.memmove
_string_at = ctypes.string_at
_data_ptr = torch._C.TensorBase.data_ptr
_element_size = torch._C.TensorBase.element_size
_numel = torch._C.TensorBase.numel
_storage_offset = torch._C.TensorBase.storage_offset
_untyped_storage = torch.Tensor.untyped_storage
_nbytes = torch.UntypedStorage.nbytes
_fill = torch.Tensor.fill_
_contiguous = torch._C.TensorBase.contiguous
_frombuffer = torch.frombuffer
_equal = torch.equal
_to = torch._C.TensorBase.to
_cpu = torch.Tensor.cpu
_copy = torch.Tensor.copy_
_set = torch.Tensor.set_
_index_select = torch.index_select
_as_strided = torch._C.TensorBase.as_strided
_tensor = torch.tensor
_empty = torch.empty
_cat, _reshape, _view, _uint8 = torch.cat, torch.Tensor.reshape, torch._C.TensorBase.view, torch.uint8
_is_conj, _is_neg = torch.Tensor.is_conj, torch.Tensor.is_neg


_PATTERN = 0x7F
"""A large finite number as a float."""
SMALL_BYTES = 1 << 16
"""Tensors of an accelerator of up to so many bytes are read together: each copy is waited for, and a network that is
trained has hundreds of buffers."""
TIDIED_BYTES = 1 << 30
"""Less than that is kept: handing memory back stops the device."""


class TensorDevice:
    """What the harness does with memory of a device: here main memory, an accelerator says what it does otherwise."""

    device = torch.device(HOST)
    chunk = 1 << 17
    """Elements that are compared at once: the float64 copies of so many stay in the second-level cache."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on this device; one that is there already stays the same object."""
        return tensor.to(self.device)

    def tidy(self) -> None:
        """Let others have the memory that this process does not use just now; main memory goes back by itself."""

    def limit(self, size: int) -> None:
        """Let tensors of this process take at most ``size`` bytes of its accelerator; main memory has no such limit."""

    @property
    def shortages(self) -> int:
        """How often tensors of this process did not get what they asked of its accelerator; 0 in main memory."""
        return 0

    def begin_peak(self) -> None:
        """From now on :attr:`peak_bytes` counts."""

    @property
    def peak_bytes(self) -> int:
        """Most bytes that tensors of this process took on its accelerator at once since then; 0 in main memory."""
        return 0

    def poison_free_memory(self, like: Sequence[object]) -> None:
        """Leave a pattern in free memory of the sizes of the tensors in ``like``, where malloc's own does not reach."""

    def fill(self, tensor: torch.Tensor, address: int, size: int) -> None:
        """Copy ``size`` bytes at ``address`` of main memory into the tensor's storage."""
        _memmove(_untyped_storage(tensor).data_ptr(), address, size)

    def holds(self, tensor: torch.Tensor, address: int, size: int) -> bool:
        """Whether the storage holds exactly the ``size`` bytes at ``address`` of main memory."""
        return bool(_memcmp(int(_untyped_storage(tensor).data_ptr()), address, size) == 0)

    def fingerprint(self, tensor: torch.Tensor) -> Fingerprint | None:
        """A number for the storage's bytes where :meth:`holds` takes long; None where it does not."""
        return None

    def elements(self, tensor: torch.Tensor) -> Iterator[tuple[int, int]]:
        """Address and size in main memory of the tensor's elements, in order and one part after the other.

        Each is valid until the next one is asked for.
        """
        contiguous = _contiguous(tensor)
        yield _data_ptr(contiguous), _numel(contiguous) * _element_size(contiguous)

    def from_file(self, file: int, position: int, size: int) -> torch.Tensor:
        """Bytes of a file, on this device; ones where it ends too early. Valid until the next call."""
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        got = os.preadv(file, [view], position)
        view[got:] = b"\xff" * (size - got)
        return _frombuffer(view, dtype=torch.uint8) if size else _empty(0, dtype=torch.uint8)

    def read(self, tensor: torch.Tensor, offsets: Sequence[int]) -> tuple[bytes, ...]:
        """Bytes of the elements that lie ``offsets`` elements behind the tensor's first, in this order.

        Without waiting for work that the tensor's maker left behind elsewhere: whoever reads sees what is there.
        """
        size, start = _element_size(tensor), _data_ptr(tensor)
        return tuple(_string_at(start + size * offset, size) for offset in offsets)


class Accelerator(TensorDevice):
    """One device, as torch names it."""

    chunk = 1 << 24

    def __init__(self, name: str) -> None:
        """Starts the device's context in this process."""
        self.device = torch.device(name)
        _empty(1, device=self.device).fill_(0)
        torch.cuda.synchronize(self.device)

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy, made in parts where that is faster."""
        size = tensor.numel() * tensor.element_size()
        if tensor.device.type != HOST or not tensor.is_contiguous() or size <= STAGED_BYTES:
            return tensor.to(self.device)
        on_device = torch.empty_like(tensor, device=self.device)
        self.fill(on_device, tensor.data_ptr(), size)
        return on_device

    def tidy(self) -> None:
        """Hand the blocks back that torch keeps for later: baselines and candidates need the memory, too."""
        if torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device) > TIDIED_BYTES:
            torch.cuda.empty_cache()

    def limit(self, size: int) -> None:
        """Of torch's allocator, what it keeps for later included. The context and what libraries take come on top."""
        total = torch.cuda.get_device_properties(self.device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, size / total), self.device)

    @property
    def shortages(self) -> int:
        """By torch's allocator, which also counts what its callers do without: workspaces of libraries."""
        count: int = torch.cuda.memory_stats(self.device).get("num_ooms", 0)
        return count

    def begin_peak(self) -> None:
        """As of main memory, by torch's allocator."""
        torch.cuda.reset_peak_memory_stats(self.device)

    @property
    def peak_bytes(self) -> int:
        """By torch's allocator."""
        peak: int = torch.cuda.max_memory_allocated(self.device)
        return peak

    def poison_free_memory(self, like: Sequence[object]) -> None:
        """Take blocks as large, and let them go: torch hands out the same ones to whoever asks for as much next."""
        sizes = [_nbytes(_untyped_storage(tensor)) for tensor in like if type(tensor) is torch.Tensor]
        _ = [_fill(_empty(size, dtype=torch.uint8, device=self.device), _PATTERN) for size in sizes]

    def fill(self, tensor: torch.Tensor, address: int, size: int) -> None:
        """Copy bytes onto the device."""
        if size > STAGED_BYTES:
            self._staging.up(address, self._bytes(tensor, size))
        elif size:
            _copy(self._bytes(tensor, size), host_bytes(address, size))

    def holds(self, tensor: torch.Tensor, address: int, size: int) -> bool:
        """Copy the bytes to the device once more, and compare there."""
        if size > STAGED_BYTES:
            return self._staging.same(address, self._bytes(tensor, size))
        return not size or bool(_equal(self._bytes(tensor, size), _to(host_bytes(address, size), self.device)))

    def fingerprint(self, tensor: torch.Tensor) -> Fingerprint | None:
        """That of what is copied in parts."""
        size = _nbytes(_untyped_storage(tensor))
        return self._fingerprints.of(self._bytes(tensor, size)) if size > STAGED_BYTES else None

    def elements(self, tensor: torch.Tensor) -> Iterator[tuple[int, int]]:
        """Copies, of a buffer's size each."""
        contiguous = _contiguous(tensor)
        size = _numel(contiguous) * _element_size(contiguous)
        if size > STAGED_BYTES:
            start = _storage_offset(contiguous) * _element_size(contiguous)
            yield from self._staging.down(self._bytes(contiguous, start + size)[start:])
        else:
            copied = _cpu(contiguous)
            yield _data_ptr(copied), size

    def from_file(self, file: int, position: int, size: int) -> torch.Tensor:
        """Read into page-locked buffers, and copied from there."""
        return self._staging.read(file, position, size)

    @functools.cached_property
    def _staging(self) -> Staging:
        return Staging(self.device)

    @functools.cached_property
    def _fingerprints(self) -> Fingerprints:
        return Fingerprints(self.device)

    def read(self, tensor: torch.Tensor, offsets: Sequence[int]) -> tuple[bytes, ...]:
        """Elements, gathered on the current stream."""
        size, last = _element_size(tensor), max(offsets, default=0)
        flat = _as_strided(tensor, (last + 1,), (1,))
        elements = _cpu(_index_select(flat, 0, _tensor(list(offsets), device=self.device)))
        raw = _string_at(_data_ptr(elements), size * len(offsets))
        return tuple(raw[begin : begin + size] for begin in range(0, len(raw), size))

    def _bytes(self, tensor: torch.Tensor, size: int) -> torch.Tensor:
        view = _set(_empty(0, dtype=torch.uint8, device=self.device), _untyped_storage(tensor))
        return view[:size]


_current: list[TensorDevice] = [TensorDevice()]


def is_small(value: Any, device: TensorDevice) -> bool:
    """Whether it is a tensor of an accelerator that :func:`joined` takes."""
    if type(value) is not torch.Tensor or device.device.type == HOST or value.device != device.device:
        return False
    if value.layout != torch.strided or _is_conj(value) or _is_neg(value):
        return False
    return bool(0 < _numel(value) * _element_size(value) <= SMALL_BYTES)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Bytes of all their elements, one tensor behind the other, gathered on the current stream, in main memory."""
    return _cpu(_cat([_view(_reshape(_contiguous(tensor), -1), _uint8) for tensor in tensors]))


def set_device(name: str) -> TensorDevice:
    """Have this process keep its tensors at ``name``: ``cpu`` or ``cuda:0``.

    Raises:
        RuntimeError: torch cannot use that device.
    """
    _current[0] = TensorDevice() if name == HOST else Accelerator(name)
    return _current[0]


def current_device() -> TensorDevice:
    """Where this process keeps its tensors."""
    return _current[0]


def to_device(value: Any) -> Any:
    """``value`` with its tensors on this process's device; those that are there already stay the same objects."""
    if isinstance(value, torch.Tensor):
        return current_device().to_device(value)
    if isinstance(value, list | tuple):
        return type(value)(to_device(item) for item in value)
    if isinstance(value, dict):
        return {key: to_device(item) for key, item in value.items()}
    return value
