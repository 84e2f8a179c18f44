"""One connection that comes back by itself, and knows when it has been away for too long."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from ..schemas import BusError
from .options import ConnectOptions, servers, shown

T = TypeVar("T")

CONNECT_SECONDS = 5.0
"""How long the first connection may take."""

PATIENCE_SECONDS = 30.0
"""How long a lost server is waited for before everything that needs it fails."""

ANSWER_SECONDS = 5.0
"""How long the answer to one request is waited for before it is asked again."""

RETRY_SECONDS = 0.1
"""Pause before a refused request is sent again."""

_NOT_AVAILABLE = 10008
"""JetStream's code for "just now I cannot": starting up, or electing a leader."""

_log = logging.getLogger("kernelswarm.bus")


class Link:
    """A connection to the servers of one URL, shared by everything a Bus does."""

    def __init__(self, url: str, patience: float) -> None:
        self.url = shown(url)
        self.patience = patience
        self.nc = Client()
        self.js: JetStreamContext = self.nc.jetstream(timeout=ANSWER_SECONDS)
        self._connected = asyncio.Event()
        self._watchers: set[Callable[[], None]] = set()
        self._attempts: set[asyncio.Timeout] = set()
        self._lost: BusError | None = None
        self._last_error: Exception | None = None
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, url: str, *, name: str, options: ConnectOptions, patience: float = PATIENCE_SECONDS) -> "Link":
        """Connect.

        Raises:
            InputError: the URL or a credential is not usable.
            BusError: no server answers within five seconds.
        """
        link = cls(url, patience)
        addresses, arguments = servers(url), options.arguments()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await link._connect(addresses, name, arguments)
        except (nats.errors.Error, ValueError) as error:
            # Raised before anything is opened (a broken credentials file); all else is retried within the client.
            raise BusError(f"cannot connect to the event bus at {link.url}: {error}") from error
        except BaseException as error:
            await link.close()
            if not isinstance(error, OSError):
                raise
            raise BusError(
                f"no NATS server answers at {link.url} ({link._last_error or 'it stays silent'}): start one there, "
                "or leave --nats away to use the embedded server"
            ) from error
        link._connected.set()
        return link

    async def _connect(self, addresses: list[str], name: str, arguments: dict[str, object]) -> None:
        await self.nc.connect(
            addresses,
            name=name,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnect,
            reconnected_cb=self._on_reconnect,
            closed_cb=self._on_closed,
            max_reconnect_attempts=-1,
            # nats-py's stub says int; it is handed to asyncio.sleep.
            reconnect_time_wait=RETRY_SECONDS,  # type: ignore[arg-type]
            connect_timeout=2,
            ping_interval=20,
            pending_size=16 * 1024 * 1024,
            **arguments,  # type: ignore[arg-type]
        )

    def watch(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever the connection came back, was lost for good, or closes."""
        self._watchers.add(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Undo :meth:`watch`."""
        self._watchers.discard(callback)

    def check(self) -> None:
        """Raise BusError if the bus is closed or its server stayed away for longer than ``patience``."""
        if self._closing:
            raise BusError("the event bus is closed")
        if self._lost is not None:
            raise self._lost

    async def connected(self) -> None:
        """Wait until there is a connection.

        Raises:
            BusError: the server stays away.
        """
        while not self._connected.is_set():
            self.check()
            await self._connected.wait()
        self.check()

    async def retried(self, what: str, request: Callable[[], Awaitable[T]], *, seconds: float = ANSWER_SECONDS) -> T:
        """Do an idempotent request, again while the server is away, restarting or electing, until patience ends.

        One attempt may take ``seconds``; it is given up at once when the connection broke under it.

        Raises:
            BusError: the server refused it, or patience ended; ``what`` says what was asked.
            nats.js.errors.NotFoundError: it is about something that does not exist.
        """
        deadline = asyncio.get_running_loop().time() + self.patience
        while True:
            await self.connected()
            try:
                return await self._attempt(request, seconds)
            except nats.js.errors.NotFoundError:
                raise
            except (nats.errors.Error, TimeoutError) as error:
                self.check()
                if not _passing(error) or asyncio.get_running_loop().time() > deadline:
                    raise BusError(f"the event bus at {self.url} did not {what}: {_reason(error)}") from error
                if not isinstance(error, TimeoutError):
                    await asyncio.sleep(RETRY_SECONDS)

    async def _attempt(self, request: Callable[[], Awaitable[T]], seconds: float) -> T:
        async with asyncio.timeout(seconds) as limit:
            self._attempts.add(limit)
            try:
                return await request()
            finally:
                self._attempts.discard(limit)

    async def close(self) -> None:
        """Send what is waiting, then close. Never raises for a server that is gone."""
        if self._closing:
            return
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self.nc.is_connected:
            with contextlib.suppress(nats.errors.Error, OSError):
                await self.nc.flush(2)
        self._wake()
        await self.nc.close()

    def _wake(self) -> None:
        if self._closing or self._lost is not None:
            self._connected.set()
        for callback in list(self._watchers):
            callback()

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        _log.debug("bus: %s", error)

    async def _on_disconnect(self) -> None:
        self._connected.clear()
        if not self._closing and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.patience, self._give_up)

    async def _on_reconnect(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._lost = None
        self._connected.set()
        # What was asked over the broken connection is never answered: ask again now, not after a timeout.
        for limit in self._attempts:
            if not limit.expired():
                limit.reschedule(0)
        self._wake()

    async def _on_closed(self) -> None:
        if not self._closing:
            self._lost = BusError(
                f"the event bus at {self.url} closed the connection: {self.nc.last_error or self._last_error}"
            )
            self._wake()

    def _give_up(self) -> None:
        self._lost = BusError(
            f"the event bus at {self.url} went away and did not come back within {self.patience:.0f} s"
        )
        self._wake()


def _passing(error: Exception) -> bool:
    if isinstance(error, nats.js.errors.APIError):
        return error.err_code == _NOT_AVAILABLE or (
            isinstance(error, nats.js.errors.ServiceUnavailableError) and error.err_code is None
        )
    return isinstance(
        error,
        TimeoutError
        | nats.errors.NoRespondersError
        | nats.errors.OutboundBufferLimitError
        | nats.errors.ConnectionReconnectingError
        | nats.js.errors.NoStreamResponseError
        | nats.js.errors.ServiceUnavailableError,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, nats.js.errors.APIError) and error.description:
        if any(word in error.description for word in ("space", "resource", "storage")):
            return f"{error.description} (the server's disk is full: free some space there)"
        return error.description
    if isinstance(error, nats.js.errors.NoStreamResponseError | nats.errors.NoRespondersError):
        return "JetStream does not answer there (is it switched on, and is there space on its disk?)"
    if isinstance(error, TimeoutError):
        return "the server does not answer (is its disk full, or its cluster without a majority?)"
    return str(error)
