"""Memory of an NVIDIA device that can be handed to another process as a file descriptor.

The driver's virtual memory management does that where its older calls cannot: across namespaces of process ids.
What this module uses was bound before any candidate is imported. Source: CUDA driver API, section "Virtual Memory
Management"; the numbers are those of ``cuda.h``.
"""

import ctypes
import functools
from typing import Any

import torch

_as_tensor = torch.as_tensor
_synchronize = torch.cuda.synchronize

_PINNED = 1
_ON_DEVICE = 1
_POSIX_FILE = 1
_READ_AND_WRITE = 3

_c_uint64, _c_size_t, _c_int, _byref, _c_void_p = (
    ctypes.c_uint64,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.byref,
    ctypes.c_void_p,
)


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Properties(ctypes.Structure):
    """``CUmemAllocationProp``."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    """``CUmemAccessDesc``."""

    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class Block:
    """One allocation, mapped in this process until :meth:`close`; what others were given of it outlives that."""

    def __init__(self, handle: int, size: int, device: int) -> None:
        """Map ``size`` bytes of what ``handle`` stands for, which is let go if that fails."""
        self._handle, self._size, self._address = handle, size, 0
        driver, address = cuda_driver(), _c_uint64()
        try:
            _check(driver.cuMemAddressReserve(_byref(address), _c_size_t(size), 0, 0, 0), "reserving addresses")
            self._address = int(address.value)
            self._map(device)
        except OSError:
            self.close()
            raise

    def _map(self, device: int) -> None:
        driver, address = cuda_driver(), _c_uint64(self._address)
        _check(driver.cuMemMap(address, _c_size_t(self._size), 0, _c_uint64(self._handle), 0), "mapping")
        access = _Access(_Location(_ON_DEVICE, device), _READ_AND_WRITE)
        done = driver.cuMemSetAccess(address, _c_size_t(self._size), _byref(access), 1)
        if done:
            driver.cuMemUnmap(address, _c_size_t(self._size))
        _check(done, "opening for access")

    @classmethod
    def allocate(cls, size: int, device: int) -> "Block":
        """A fresh one of at least ``size`` bytes on the device that this process knows by that number.

        Raises:
            OSError: the device has no room, or its driver cannot do it.
        """
        handle, properties = _c_uint64(), _properties(device)
        _check(
            cuda_driver().cuMemCreate(_byref(handle), _c_size_t(_rounded(size, device)), _byref(properties), 0),
            "allocating",
        )
        return cls(int(handle.value), _rounded(size, device), device)

    @classmethod
    def opened(cls, file: int, size: int, device: int) -> "Block":
        """One of ``size`` bytes that another process has made and given us as ``file``.

        Raises:
            OSError: ``file`` is no such thing, or not of that size.
        """
        handle = _c_uint64()
        _check(
            cuda_driver().cuMemImportFromShareableHandle(_byref(handle), _c_void_p(file), _POSIX_FILE),
            "opening what came",
        )
        return cls(int(handle.value), _rounded(size, device), device)

    def file(self) -> int:
        """A descriptor of it, which the caller closes; others open it with :meth:`opened`.

        Raises:
            OSError: the driver cannot do it.
        """
        file = _c_int(-1)
        _check(
            cuda_driver().cuMemExportToShareableHandle(_byref(file), _c_uint64(self._handle), _POSIX_FILE, 0),
            "handing on",
        )
        return int(file.value)

    @property
    def tensor(self) -> torch.Tensor:
        """Its bytes, as a vector; not to be used after :meth:`close`."""
        return _as_tensor(_Bytes(self._address, self._size), device="cuda")

    def close(self) -> None:
        """Let go of it here, once nothing of this process works on it any more."""
        driver, size = cuda_driver(), _c_size_t(self._size)
        try:
            # The driver does not wait: what still reads the block would end this process's use of the device.
            if self._address:
                _synchronize()
        finally:
            if self._address:
                driver.cuMemUnmap(_c_uint64(self._address), size)
                driver.cuMemAddressFree(_c_uint64(self._address), size)
            driver.cuMemRelease(_c_uint64(self._handle))


class _Bytes:
    """What torch asks for to use memory that is not its own."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def _properties(device: int) -> _Properties:
    return _Properties(type=_PINNED, handle_types=_POSIX_FILE, location=_Location(_ON_DEVICE, device))


@functools.cache
def _granularity(device: int) -> int:
    granularity, properties = _c_size_t(), _properties(device)
    _check(
        cuda_driver().cuMemGetAllocationGranularity(_byref(granularity), _byref(properties), 0),
        "asking for the page size",
    )
    return int(granularity.value)


def _rounded(size: int, device: int) -> int:
    step = _granularity(device)
    return max(1, -(-size // step)) * step


@functools.cache
def cuda_driver() -> Any:
    """The CUDA driver's library."""
    return ctypes.CDLL("libcuda.so.1")


def _check(status: int, action: str) -> None:
    if status:
        raise OSError(f"{action} device memory failed: CUDA driver error {status}")
