"""Reads the answer of a timed process, and the outputs at the addresses in it."""

import os
import socket

from ...processes import wire
from ..inputs.sizes import bytes_of, width_of
from ..messages.batch import Made
from .freezing import Frozen, Unreadable, elements

LONGEST_ANSWER = 16 << 20
"""Bytes: where the outputs of a batch lie, or why there are none."""


def payload_of(channel: socket.socket, most: int = LONGEST_ANSWER) -> bytes:
    """The whole answer, of ``most`` bytes.

    Raises:
        EOFError: its process has ended.
        TimeoutError: it did not come.
        OverflowError: it is too long to be one.
    """
    (length,) = wire.HEADER.unpack(_exactly(channel, wire.HEADER.size))
    if length > most:
        raise OverflowError
    return _exactly(channel, length)


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = channel.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def read_outputs(process: Frozen, answer: Made, call: int, most_bytes: int) -> tuple[str, int]:
    """A memory file with the tensors that ``call`` of a stopped process left, and why they are not in it, if so."""
    file = os.memfd_create("outputs", os.MFD_CLOEXEC)
    try:
        _write(process, answer, call, most_bytes, file)
    except (Unreadable, LookupError, ValueError, OverflowError) as error:
        return str(error) or type(error).__name__, file
    return "", file


def _write(process: Frozen, answer: Made, call: int, most_bytes: int, file: int) -> None:
    form, *addresses = answer.calls[call]
    for leaf, address in zip(answer.forms[form], addresses, strict=True):
        if leaf.kind == "tensor":
            size = bytes_of(leaf.shape, leaf.dtype)
            if size > most_bytes:
                raise Unreadable(f"a tensor of {size} bytes, where all outputs may have {most_bytes}")
            _write_all(file, elements(process, address, leaf.shape, leaf.stride, width_of(leaf.dtype)))


def _write_all(file: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
