"""Messages and file descriptors over a Unix stream socket, as the children send and receive them (blocking)."""

import os
import socket
import struct
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

HEADER = struct.Struct("<I")
LARGEST_MESSAGE = 256 << 20
"""Bytes. A candidate that announces more is lying; a captured graph is a few megabytes at most."""
MOST_DESCRIPTORS = 16

_ENCODER = msgspec.msgpack.Encoder()


def frame(message: Any) -> bytes:
    """Wire bytes of ``message``: little-endian length, then MessagePack."""
    payload = _ENCODER.encode(message)
    return HEADER.pack(len(payload)) + payload


def unframe(payload: bytes | bytearray, kind: type[T] | Any) -> T:
    """Decode a payload.

    Raises:
        msgspec.DecodeError: it is not of ``kind``, or is nested too deeply.
    """
    try:
        decoded: T = msgspec.msgpack.decode(payload, type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError(str(error)) from None
    return decoded


def send(channel: socket.socket, message: Any, descriptors: Sequence[int] = ()) -> None:
    """Send one message, with file descriptors that stay open here.

    Raises:
        OSError: the other end is gone.
    """
    data = frame(message)
    sent = socket.send_fds(channel, [data], list(descriptors))
    channel.sendall(data[sent:])


def receive(channel: socket.socket, kind: type[T] | Any) -> tuple[T, list[int]]:
    """Receive one message and the file descriptors that came with it (the caller closes them).

    Raises:
        EOFError: the other end is gone.
    """
    head, descriptors, _, _ = socket.recv_fds(channel, HEADER.size, MOST_DESCRIPTORS)
    head += _exactly(channel, HEADER.size - len(head)) if head else b""
    if not head:
        raise EOFError("the supervisor is gone")
    (length,) = HEADER.unpack(head)
    return unframe(_exactly(channel, length), kind), descriptors


def close_all(descriptors: Sequence[int]) -> None:
    """Close file descriptors that were received."""
    for descriptor in descriptors:
        os.close(descriptor)


def _exactly(channel: socket.socket, length: int) -> bytearray:
    data = bytearray(length)
    view = memoryview(data)
    while view:
        count = channel.recv_into(view)
        if count == 0:
            raise EOFError("the supervisor is gone")
        view = view[count:]
    return data
