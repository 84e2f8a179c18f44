"""One connection that comes back by itself, and knows when it has been away for too long."""

import asyncio
import contextlib
import logging
import random
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from ..schemas import BusError
from .cancelled import heeded
from .options import ConnectOptions, inbox_prefix, servers, shown

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

_FIRST_COPY_IN_PROCESS = 10158
"""JetStream's code for a second copy of a message whose first one still waits for a majority."""

_NO_ROOM = (10047, 10077, 10104)
"""JetStream's codes for a disk without room: for resources, for a message, for a consumer. Room may come back."""

_SAID_OF_NO_ROOM = ("error creating store", "no space left", "quota exceeded")
"""What it says of a new stream or consumer then, under a code that means anything."""

_VIOLATION = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')
"""As the client words it, which makes it all lower case."""

_UNIMPORTANT = "$js.api.consumer.delete."
"""What is asked out of politeness: the server forgets such a consumer by itself."""

_ANSWERED_MEANWHILE_SECONDS = 0.5
"""A request that may have been meant by a refusal, but was not, has its answer after so long."""

_log = logging.getLogger("kernelswarm.bus")


class NoServer(BusError):
    """Nobody answers at the URL: no server, or one that is just starting."""


class Link:
    """A connection to the servers of one URL, shared by everything a Bus does."""

    def __init__(self, url: str, patience: float) -> None:
        self.url = shown(url)
        self.patience = patience
        self.nc = Client()
        self.js: JetStreamContext = self.nc.jetstream(timeout=ANSWER_SECONDS)
        self._connected = asyncio.Event()
        self._watchers: set[Callable[[], None]] = set()
        self._attempts: dict[asyncio.Timeout, frozenset[str]] = {}
        """What is being asked just now: the subjects of each in lower case, none where they are not known."""
        self._refusals: dict[asyncio.Timeout, str] = {}
        self._refused: set[str] = set()
        self._lost: BusError | None = None
        self._last_error: Exception | None = None
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        name: str,
        options: ConnectOptions,
        patience: float = PATIENCE_SECONDS,
        within: float | None = None,
    ) -> "Link":
        """Connect, ``within`` so many seconds (by default :data:`CONNECT_SECONDS`).

        Raises:
            InputError: the URL or a credential is not usable.
            NoServer: nobody answers.
            BusError: the server does not let us in.
        """
        link = cls(url, patience)
        addresses, arguments = servers(url), options.arguments()
        if "tls" not in arguments and any(address.startswith("tls:") for address in addresses):
            # It reads all certificates of the system, and the client would do so on the event loop at each attempt.
            arguments["tls"] = await asyncio.to_thread(ssl.create_default_context)
        arguments["inbox_prefix"] = inbox_prefix(url).encode()
        try:
            await _at_most(CONNECT_SECONDS if within is None else within, link._connect(addresses, name, arguments))
        except (nats.errors.Error, ValueError) as error:
            # Raised before anything is opened (a broken credentials file); all else is retried within the client.
            raise BusError(f"cannot connect to the event bus at {link.url}: {error}") from error
        except BaseException as error:
            await link.close()
            if not isinstance(error, OSError):
                raise
            raise _not_let_in(link.url, link._why()) from error
        link._connected.set()
        return link

    async def _connect(self, addresses: list[str], name: str, arguments: dict[str, object]) -> None:
        # The client would shuffle them, and all that it hears of later, with the random numbers of the user's program.
        random.Random().shuffle(addresses)
        await self.nc.connect(
            addresses,
            name=name,
            dont_randomize=True,
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

    def _why(self) -> Exception | None:
        # Over TLS the refused client often hears only that the server hung up, and not the server's reason.
        hung_up = isinstance(self._last_error, BrokenPipeError | ConnectionResetError | nats.errors.UnexpectedEOF)
        if hung_up and self.nc._server_info.get("auth_required"):
            return nats.errors.AuthorizationError()
        return self._last_error

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

    @property
    def is_lost(self) -> bool:
        """Whether its server stayed away for longer than :attr:`patience`, or the bus is closed."""
        return self._closing or self._lost is not None

    async def connected(self) -> None:
        """Wait until there is a connection.

        Raises:
            BusError: the server stays away.
        """
        while not self._connected.is_set():
            self.check()
            await self._connected.wait()
        self.check()

    def may(self, subject: str) -> bool:
        """Whether the server has not refused this user ``subject`` (or one that differs in its last token) yet."""
        return _family(subject) not in self._refused

    async def retried(
        self,
        action: str,
        request: Callable[[], Awaitable[T]],
        *,
        seconds: float = ANSWER_SECONDS,
        subject: str = "",
        deadline: float | None = None,
    ) -> T:
        """Do an idempotent request, again while the server is away, restarting or electing, until patience ends.

        It ends at ``deadline`` on the loop's clock, by default after :attr:`patience` seconds. One attempt may take
        ``seconds``; it is given up at once when the connection broke under it, and when the server refuses ``subject``
        to this user.

        Raises:
            BusError: the server refused it, or patience ended; ``action`` says what was asked.
            nats.js.errors.NotFoundError: it is about something that does not exist.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.patience if deadline is None else deadline
        while True:
            await self.connected()
            try:
                return await self._attempt(request, seconds, subject)
            except nats.js.errors.NotFoundError:
                raise
            except (nats.errors.Error, TimeoutError) as error:
                self.check()
                # While there is no connection, how long it has been away decides, and says so.
                late = clock() > deadline and self._connected.is_set()
                if late or not _passing(error):
                    raise BusError(f"the event bus at {self.url} did not {action}: {_reason(error)}") from error
                if not isinstance(error, TimeoutError):
                    await asyncio.sleep(RETRY_SECONDS)

    async def _attempt(self, request: Callable[[], Awaitable[T]], seconds: float, subject: str) -> T:
        async with self.request_timeout({subject} if subject else (), seconds):
            return await heeded(request())

    @contextlib.asynccontextmanager
    async def request_timeout(self, subjects: Iterable[str], seconds: float) -> AsyncIterator[None]:
        """The body may take ``seconds``; it ends at once when the connection breaks under it.

        Raises:
            TimeoutError: it took longer, or was asked over a connection that is gone.
            BusError: the server refuses one of ``subjects`` to this user.
        """
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                self._attempts[limit] = frozenset(map(str.lower, subjects))
                yield
        except TimeoutError:
            if limit in self._refusals:
                raise BusError(self._refusals[limit]) from None
            raise
        finally:
            self._attempts.pop(limit, None)
            self._refusals.pop(limit, None)

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
        # What was asked over the connection that is gone is never answered: that ends now, not after a timeout.
        for limit in self._attempts:
            if not limit.expired():
                limit.reschedule(0)
        for callback in list(self._watchers):
            callback()

    async def _on_error(self, error: Exception) -> None:
        # A server that refuses hangs up, too: the broken pipe must not hide why.
        if not isinstance(self._last_error, nats.errors.AuthorizationError | ssl.SSLError):
            self._last_error = error
        _log.debug("bus: %s", error)
        violation = _VIOLATION.search(str(error))
        if violation is not None:
            self._on_violation(violation[1], violation[2])

    def _on_violation(self, act: str, subject: str) -> None:
        """The server does not say which request it refuses: those that it may mean fail, the others go on."""
        verb = "hear" if act == "subscription" else "say"
        sentence = (
            f"the event bus at {self.url} does not let this user {verb} {subject}: "
            "connect with the credentials of a role that may (docs/fleet.md)"
        )
        if self.may(subject) and not subject.startswith(_UNIMPORTANT):
            _log.warning("bus: %s", sentence)
        self._refused.add(_family(subject))
        now = asyncio.get_running_loop().time()
        for limit, subjects in self._attempts.items():
            if subject in subjects or (not subjects and subject.startswith(("$js.api.", "$o."))):
                self._refusals[limit] = sentence
                when = now + (0.0 if subjects else _ANSWERED_MEANWHILE_SECONDS)
                if not limit.expired() and (limit.when() or when) >= when:
                    limit.reschedule(when)

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


async def _at_most(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Do ``work``; cancel it after ``seconds``, as often as it takes: the client swallows one while it connects."""
    task = asyncio.create_task(work, name="connect")
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise TimeoutError
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=RETRY_SECONDS)
    task.result()


def _not_let_in(url: str, error: Exception | None) -> BusError:
    """Why there is no connection, and the way out."""
    if "authorization" in str(error).lower():
        return BusError(
            f"the NATS server at {url} refuses these credentials: put user and password (or a token) into the URL, "
            "or name a credentials file with --creds"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return BusError(
            f"the certificate of the NATS server at {url} is not trusted ({error.verify_message}): "
            "name the authority that signed it with --tls-ca"
        )
    if isinstance(error, ssl.SSLError):
        return BusError(
            f"the NATS server at {url} ends the TLS handshake ({error.reason or error}): it may ask for a certificate "
            "of yours, named with --tls-cert and --tls-key"
        )
    return NoServer(
        f"no NATS server answers at {url} ({error or 'it stays silent'}): start one there, "
        "or leave --nats away to use the embedded server"
    )


def _family(subject: str) -> str:
    return subject.lower().rpartition(".")[0]


def _passing(error: Exception) -> bool:
    if isinstance(error, nats.js.errors.APIError):
        return (
            error.err_code in (_NOT_AVAILABLE, _FIRST_COPY_IN_PROCESS, *_NO_ROOM)
            or any(words in (error.description or "") for words in _SAID_OF_NO_ROOM)
            or (isinstance(error, nats.js.errors.ServiceUnavailableError) and error.err_code is None)
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
        if any(word in error.description for word in ("space", "resource", "storage", "store")):
            return f"{error.description} (the server's disk is full: free some space there)"
        return error.description
    if isinstance(error, nats.js.errors.NoStreamResponseError | nats.errors.NoRespondersError):
        return "JetStream does not answer there (is it switched on, and is there space on its disk?)"
    if isinstance(error, TimeoutError):
        return "the server does not answer (is its disk full, or its cluster without a majority?)"
    return str(error)
