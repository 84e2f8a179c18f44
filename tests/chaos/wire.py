"""A TCP connection through us, that can swallow what the server says, and be cut."""

import asyncio
import contextlib
from urllib.parse import urlsplit


class Wire:
    """Listens on a loopback port of its own and passes everything on to the server."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._swallow = False
        self._cut = False

    @property
    def url(self) -> str:
        """Where a client connects to come through here."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"nats://{self._parts.username}:{self._parts.password}@127.0.0.1:{port}"

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)

    def swallow(self) -> None:
        """From now on nothing that the server says arrives."""
        self._swallow = True

    def cut(self) -> None:
        """Break every connection, and refuse new ones until :meth:`heal`."""
        self._cut = True
        self._abort()

    def heal(self) -> None:
        """Let everything through again."""
        self._swallow = self._cut = False

    async def close(self) -> None:
        """Stop listening."""
        self._abort()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        except OSError:  # the server is away
            writer.transport.abort()
            return
        ours = {writer, back}
        self._writers |= ours
        await asyncio.wait(
            [
                asyncio.create_task(self._pump(reader, back, said_by_server=False)),
                asyncio.create_task(self._pump(there, writer, said_by_server=True)),
            ]
        )
        self._writers -= ours

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, said_by_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if not (said_by_server and self._swallow):
                    sink.write(data)
                    await sink.drain()
        sink.close()
