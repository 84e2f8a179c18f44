"""Transfers arguments between processes: their structure in the message, tensors in a sealed memory file."""

import ctypes
import itertools
import math
import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ...processes import arguments, objects, sealing
from ...processes.arguments import DTypeValue, TensorSpec, Value, Values, specs_of
from ...processes.messages import HOST
from . import tensor_placement
from .staging import write_by_threads

ALIGNMENT = 4096
_SET_ALIGNMENT = 64
"""Bytes: as torch aligns."""
_SET_GAP = 192
"""Bytes between sets, so that they do not all begin at the same offset in a page."""
_LARGEST_WRITE = 1 << 30
_LARGE_WRITE = 16 << 20
"""Bytes from which on a write is worth a mapping, which threads share."""
_FEW_THREADS = 3
"""So many are no faster than the kernel alone, which clears no page before it writes there."""


MOST_OUTPUTS = 1 << 14
"""Of a call, with the lists, tuples and dictionaries that hold them."""

_frombuffer, _get_num_threads = torch.frombuffer, torch.get_num_threads


class Unsupported(TypeError):
    """A value that cannot be handed to a candidate; the message names its type."""


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def pack(arguments: Sequence[Any]) -> tuple[Values, int]:
    """Write ``arguments`` into a fresh memory file that nobody can change any more.

    Returns:
        What describes them, and the file's descriptor (the caller closes it).

    Raises:
        Unsupported: a value holds a function of the problem, or another thing that cannot be sent.
    """
    writer = _Writer()
    try:
        items = tuple(writer.value(argument) for argument in arguments)
        os.ftruncate(writer.file, writer.position)
        sealing.seal(writer.file)
    except BaseException:
        os.close(writer.file)
        raise
    return Values(items=items, size=writer.position), writer.file


def pack_sets(draws: Iterable[Sequence[Any]], *, alike: bool) -> tuple[tuple[Values, ...], int, list[int], int]:
    """Write sets of arguments into one fresh memory file, one behind the other, with room for another layout of theirs.

    ``alike``: leave out what differs from the first in more than the numbers of its tensors.

    Returns:
        What describes them: one for all if they differ in nothing else, or one each; bytes from one to the next; which
        of ``draws`` are in the file, in order; the file's descriptor (the caller closes it).

    Raises:
        Unsupported: as :func:`pack`.
    """
    file, end = os.memfd_create("sets", os.MFD_CLOEXEC), 0
    begins: list[int] = []
    described: list[Values] = []
    taken: list[int] = []
    try:
        for number, draw in enumerate(draws):
            writer = _Writer(file, end, _SET_ALIGNMENT)
            values = Values(items=tuple(map(writer.value, draw)), size=writer.position)
            if alike and described and values != described[0]:
                continue
            taken.append(number)
            begins.append(end)
            described.append(values)
            end += max(writer.position, 1) + _SET_GAP
        if all(values == described[0] for values in described):
            os.ftruncate(file, end)
            return (described[0],), end // len(taken), taken, file
        stride = max(values.size + ALIGNMENT * len(specs_of(values.items)) for values in described) + _SET_GAP
        return tuple(described), stride, taken, _spread(file, begins, described, stride)
    except BaseException:
        os.close(file)
        raise


def _spread(file: int, begins: Sequence[int], described: Sequence[Values], stride: int) -> int:
    """Sets of different sizes, so that one begins every ``stride`` bytes: in another file, ``file`` is closed.

    Nothing lies between them: a process that is given one shall not find a piece of another one there.
    """
    target = os.memfd_create("sets", os.MFD_CLOEXEC)
    os.ftruncate(target, stride * len(begins))
    for number, (begin, values) in enumerate(zip(begins, described, strict=True)):
        os.pwrite(target, os.pread(file, values.size, begin), number * stride)
    os.close(file)
    return target


def is_packable(value: Any) -> bool:
    """Whether :func:`pack` takes ``value``, apart from the layout of tensors."""
    if isinstance(value, list | tuple):
        return all(map(is_packable, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_packable(item) for key, item in value.items())
    return value is None or isinstance(value, torch.Tensor | torch.dtype | bool | int | float | str)


class _Writer:
    def __init__(self, file: int = -1, position: int = 0, alignment: int = ALIGNMENT) -> None:
        """Into a fresh file, or into ``file`` from ``position`` on; positions count from there."""
        self.file = os.memfd_create("values", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING) if file < 0 else file
        self._begin, self.position = position, 0
        self._alignment = alignment

    def value(self, value: Any) -> Value:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value  # type: ignore[no-any-return]
        if kind is torch.dtype:
            return DTypeValue(name=dtype_name(value))
        if kind in (list, tuple):
            return arguments.Sequence(items=tuple(map(self.value, value)), is_tuple=kind is tuple)
        if kind is dict and all(type(key) is str for key in value):
            return arguments.Mapping(items={key: self.value(item) for key, item in value.items()})
        try:
            data, tensors = objects.packed(value)
        except objects.CannotTravel as error:
            raise Unsupported(str(error)) from None
        return arguments.Object(pickled=data, tensors=tuple(map(self._tensor, tensors)))

    def _tensor(self, tensor: torch.Tensor) -> TensorSpec:
        if tensor.layout != torch.strided:
            raise Unsupported(f"a tensor on {tensor.device} with layout {tensor.layout}")
        tensor = tensor.detach().resolve_conj().resolve_neg()
        begin, size = self.position, tensor.untyped_storage().nbytes()
        self._storage(tensor)
        self.position = -(-(begin + size) // self._alignment) * self._alignment
        return TensorSpec(
            dtype=dtype_name(tensor.dtype),
            shape=tuple(tensor.shape),
            stride=tuple(tensor.stride()),
            storage_offset=tensor.storage_offset(),
            position=begin,
            size=size,
        )

    def _storage(self, tensor: torch.Tensor) -> None:
        """The storage, not the tensor: a copy of the latter would close the gaps between its rows."""
        storage, position = tensor.untyped_storage(), self._begin + self.position
        if storage.device.type == HOST:
            write_bytes(self.file, storage.data_ptr(), storage.nbytes(), position)
            return
        flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        for address, size in tensor_placement.current_device().elements(flat):
            write_bytes(self.file, address, size, position)
            position += size


def write_bytes(file: int, address: int, size: int, position: int) -> None:
    """Write ``size`` bytes at ``address`` into ``file`` at ``position``."""
    if size > _LARGE_WRITE and _get_num_threads() > _FEW_THREADS:
        write_by_threads(file, address, size, position)
        return
    done = 0
    while done < size:
        step = min(size - done, _LARGEST_WRITE)
        view = (ctypes.c_char * step).from_address(address + done)
        done += os.pwrite(file, view, position + done)


class MappedFile:
    """A memory file mapped privately: reading it costs nothing, and nobody else sees a change unless it is shared."""

    def __init__(self, file: int, size: int, *, shared: bool = False) -> None:
        flags = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
        self._map = mmap.mmap(file, max(size, 1), flags=flags) if size else None
        self.address = 0
        if self._map is not None:
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def touch(self) -> None:
        """Read a byte of every page."""
        if self._map is not None:
            _ = self._map[:: mmap.PAGESIZE]

    def __len__(self) -> int:
        return 0 if self._map is None else len(self._map)

    def elements(self, dtype: torch.dtype, begin: int, size: int) -> torch.Tensor:
        """A flat tensor on ``size`` bytes of it, at least one."""
        return _frombuffer(self._map, dtype=dtype, count=size // dtype.itemsize, offset=begin)


def fresh_tensor(spec: TensorSpec) -> torch.Tensor:
    """A tensor as ``spec`` says, in memory that torch allocated; its contents are undefined."""
    dtype = getattr(torch, spec.dtype)
    storage = torch.empty(spec.size // dtype.itemsize, dtype=dtype, device=tensor_placement.current_device().device)
    return storage.as_strided(spec.shape, spec.stride, spec.storage_offset)


Make = Callable[[TensorSpec], torch.Tensor]


def unpack(values: Values, mapped: MappedFile, make: Make = fresh_tensor, *, begin: int = 0) -> list[Any]:
    """Arguments as described, their tensors copied into memory that torch allocated, or into those of ``make``.

    ``begin``: where the set begins in the file, bytes.
    """

    def filled(spec: TensorSpec) -> torch.Tensor:
        tensor = make(spec)
        tensor_placement.current_device().fill(tensor, mapped.address + begin + spec.position, spec.size)
        return tensor

    return [_unpack(item, filled) for item in values.items]


def refill(arguments: Sequence[Any], values: Values, mapped: MappedFile, *, begin: int = 0) -> list[Any]:
    """As :func:`unpack`, into the tensors of ``arguments``, which lie in memory as described."""
    tensors = iter(tensors_of(arguments))
    return unpack(values, mapped, lambda spec: next(tensors), begin=begin)


def viewed(values: Values, mapped: MappedFile, begin: int = 0) -> list[Any]:
    """Arguments as described, their tensors where they lie in the file, which has the set from byte ``begin`` on.

    Where sizes differ from call to call it is part of what is timed: it takes no longer than it must.
    """

    def view(spec: TensorSpec) -> torch.Tensor:
        if not spec.size:
            return fresh_tensor(spec)
        flat = mapped.elements(getattr(torch, spec.dtype), begin + spec.position, spec.size)
        if len(spec.shape) == 1 and spec.stride == (1,) and not spec.storage_offset and flat.shape == spec.shape:
            return flat
        return flat.as_strided(spec.shape, spec.stride, spec.storage_offset)

    return [_unpack(item, view) for item in values.items]


def _unpack(value: Value, make: Make) -> Any:
    if isinstance(value, TensorSpec):
        return make(value)
    if isinstance(value, arguments.Sequence):
        items = [_unpack(item, make) for item in value.items]
        return tuple(items) if value.is_tuple else items
    if isinstance(value, arguments.Mapping):
        return {key: _unpack(item, make) for key, item in value.items.items()}
    if isinstance(value, arguments.Object):
        return objects.unpacked(value.pickled, [make(spec) for spec in value.tensors])
    if isinstance(value, DTypeValue):
        return getattr(torch, value.name)
    return value


def tensors_of(values: Sequence[Any]) -> list[torch.Tensor]:
    """Every tensor in ``values``, depth first: the order in which :func:`specs_of` lists theirs."""
    return [leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor)]


def leaves(value: Any) -> list[Any]:
    """``value`` flattened: tensors, depth first, and objects that hold none."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return objects.tensors_in(value) or [value]


def are_too_many(value: Any) -> bool:
    """Whether ``value`` has more than :data:`MOST_OUTPUTS` parts: to open each object takes 30 us."""
    left, parts = [value], 0
    while left and parts <= MOST_OUTPUTS:
        part = left.pop()
        parts += 1
        if isinstance(part, list | tuple | dict):
            left += itertools.islice(part.values() if isinstance(part, dict) else part, MOST_OUTPUTS)
    return parts > MOST_OUTPUTS


def size_of(values: Sequence[Any]) -> int:
    """Bytes of the elements of all tensors in ``values``."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(values))


def all_finite(flat: torch.Tensor) -> bool:
    """Whether all elements of a vector are finite; a sum of squares tells that much faster than a look at each."""
    wide = flat if flat.dtype in (torch.float32, torch.float64) else flat.float()
    return math.isfinite(float(torch.dot(wide, wide))) or bool(torch.isfinite(flat).all())


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that lies in memory as ``tensor`` does, gaps included."""
    storage = tensor.untyped_storage().clone()
    return tensor.new_empty(0).set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """``value`` with every tensor in it changed, depth first."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(item, change) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(mapped(item, change) for item in value)
    if type(value) is dict:
        return {key: mapped(item, change) for key, item in value.items()}
    return objects.with_tensors(value, change)
