"""The supervisor's end of a child's channel: the same frames as :mod:`.wire`, without blocking the loop."""

import asyncio
import socket
import struct
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from . import wire

T = TypeVar("T")

_CREDENTIALS = struct.Struct("iII")


class Channel:
    """One end of a Unix stream socket. One request at a time: the caller sees to that."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        if hasattr(socket, "SO_PASSCRED"):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket = end

    def fileno(self) -> int:
        """Its descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Let go; the other end sees it."""
        self._socket.close()

    async def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """Send one message with descriptors, which stay open here.

        Raises:
            OSError: the other end is gone.
        """
        await self.send_framed(wire.frame(message), descriptors)

    async def send_framed(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send what :func:`.wire.frame` has made of a message, as :meth:`send` does."""
        while True:
            try:
                sent = socket.send_fds(self._socket, [data], list(descriptors))
                break
            except BlockingIOError:
                await self._ready(write=True)
        await asyncio.get_running_loop().sock_sendall(self._socket, memoryview(data)[sent:])

    async def peer_pid(self) -> int:
        """Process id, in our own namespace, of whoever sent what can be read next; 0 where the kernel does not say."""
        if not hasattr(socket, "SO_PASSCRED"):
            return 0
        while True:
            try:
                _, ancillary, _, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size), socket.MSG_PEEK)
                break
            except BlockingIOError:
                await self._ready(write=False)
        kinds = (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
        pids = [_CREDENTIALS.unpack(data)[0] for level, kind, data in ancillary if (level, kind) == kinds]
        return pids[0] if pids else 0

    async def receive(self, kind: type[T] | Any) -> tuple[T, list[int]]:
        """Receive one message and its descriptors, which the caller closes.

        Raises:
            EOFError: the other end is gone.
            ValueError: what came is not a message of ``kind``.
        """
        head, descriptors = await self._head()
        try:
            (length,) = wire.HEADER.unpack(head)
            if length > wire.LARGEST_MESSAGE:
                raise ValueError(f"a message of {length} bytes")
            return wire.unframe(await self._exactly(length), kind), descriptors
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            wire.close_all(descriptors)
            raise ValueError(str(error)) from error
        except BaseException:
            wire.close_all(descriptors)
            raise

    async def _head(self) -> tuple[bytes, list[int]]:
        while True:
            try:
                head, descriptors, _, _ = socket.recv_fds(self._socket, wire.HEADER.size, wire.MOST_DESCRIPTORS)
                break
            except BlockingIOError:
                await self._ready(write=False)
            except ConnectionError:
                raise EOFError from None
        if not head:
            raise EOFError
        try:
            return head + await self._exactly(wire.HEADER.size - len(head)), descriptors
        except BaseException:
            wire.close_all(descriptors)
            raise

    async def _exactly(self, length: int) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            try:
                count = await asyncio.get_running_loop().sock_recv_into(self._socket, view)
            except ConnectionError:
                raise EOFError from None
            if count == 0:
                raise EOFError
            view = view[count:]
        return data

    async def _ready(self, *, write: bool) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        add(self._socket, wake)
        try:
            await ready
        finally:
            remove(self._socket)
