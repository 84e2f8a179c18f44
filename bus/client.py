"""The bus as everybody else sees it."""

import random
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

from nats.js.api import ConsumerConfig

from ..schemas import Artifact, Envelope, Event
from ..schemas.presence import WorkerPresence
from . import rpc
from .artifacts import Artifacts
from .consumer import Consumer
from .fair import FairConsumer, SessionConsumersState
from .link import PATIENCE_SECONDS, Link, NoServer
from .open_sessions import OpenSessionIndex
from .options import ConnectOptions, default_options
from .presence import Presence
from .publisher import Publisher
from .reader import Reader, Tail, read_until
from .round_robin import RoundRobin
from .stream import SESSION_CONSUMER_SECONDS, consumer_config, ensure_stream
from .subjects import ANY, durable_name, role_filters, session_filter


class Bus:
    """One connection to the event bus. Make it with :meth:`connect`, end it with :meth:`close` or ``async with``.

    Everything on it lives through restarts of the server. Once the server has been away for ``patience`` seconds,
    whatever waits for it raises BusError.
    """

    def __init__(self, link: Link, options: ConnectOptions) -> None:
        self._link = link
        self.ack_wait_s = options.ack_wait_s
        """Seconds after which a delivery that is neither settled nor renewed goes to another worker."""
        self._publisher = Publisher(link)
        self._artifacts = Artifacts(link, options.replicas)
        self._presence = Presence(link)
        self._open: set[Consumer | FairConsumer | Tail | rpc.Service] = set()
        self._open_session_indexes: dict[str, OpenSessionIndex] = {}
        self._consumer_states: dict[tuple[str, str], SessionConsumersState] = {}

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        name: str,
        options: ConnectOptions | None = None,
        patience: float = PATIENCE_SECONDS,
        waiting: Callable[[], None] | None = None,
    ) -> "Bus":
        """Connect to the server (or servers, with commas between them) at ``url`` and make sure of the stream.

        ``name`` is what the server's operator sees. ``options`` default to :func:`default_options`. With ``waiting``,
        which is called once nobody has answered for five seconds, a server may also come within ``patience``: for
        services, which are started with their server or while it restarts.

        Raises:
            InputError: the URL or a credential is not usable.
            BusError: nobody answers in time, or the stream there is not ours to use.
        """
        options = options or default_options()
        try:
            link = await Link.open(url, name=name, options=options, patience=patience)
        except NoServer:
            if waiting is None:
                raise
            waiting()
            link = await Link.open(url, name=name, options=options, patience=patience, within=patience)
        try:
            await ensure_stream(link, options.replicas)
        except BaseException:
            await link.close()
            raise
        return cls(link, options)

    @property
    def url(self) -> str:
        """Where it is connected, without credentials."""
        return self._link.url

    @property
    def is_lost(self) -> bool:
        """Whether its server is given up; where it is not, what it did not answer may be asked again."""
        return self._link.is_lost

    async def publish(self, envelope: Envelope) -> int:
        """Store one event, once; its stream sequence. Errors: :meth:`Publisher.publish`."""
        return await self._publisher.publish(envelope)

    async def publish_many(self, envelopes: Iterable[Envelope]) -> list[int]:
        """Store several, up to 256 on their way at a time; their sequences. Errors: :meth:`Publisher.publish`."""
        return await self._publisher.publish_many(envelopes)

    def consume(
        self,
        pool: str,
        role: str,
        kinds: Sequence[type[Event]],
        *,
        max_in_flight: int = 1,
        session: str | None = None,
        ack_wait_s: float | None = None,
    ) -> Consumer:
        """Deliveries of ``kinds`` (none: every tag) for ``pool`` (``"*"``: every pool).

        All workers that ask with the same pool, role and session share them out among themselves. The consumer is
        durable and begins with the stream's first event. With ``session`` it hears that session alone, and is
        forgotten a day after its last worker. What is not settled or renewed within ``ack_wait_s`` (by default
        :attr:`ack_wait_s`) goes to another.

        Raises:
            InputError: a name cannot be part of a subject.
        """
        config = consumer_config(
            durable_name(pool, role, session),
            role_filters(pool, kinds, session),
            ack_wait_s=self.ack_wait_s if ack_wait_s is None else ack_wait_s,
            idle_s=None if session is None else SESSION_CONSUMER_SECONDS,
        )
        consumer = Consumer(self._link, config, max_in_flight, self._open.discard)
        self._open.add(consumer)
        return consumer

    def consume_round_robin(self, pool: str, role: str, kinds: Sequence[type[Event]]) -> FairConsumer:
        """Deliveries of ``kinds`` for ``pool``, one at a time, its open sessions by round robin.

        All workers of a pool and a role share the work, as with :meth:`consume`; but where several sessions wait, the
        one that was served least comes next, however much another one has asked for before.

        Raises:
            InputError: a name cannot be part of a subject.
        """
        filters = role_filters(pool, kinds)
        token_config = consumer_config(
            durable_name(pool, role), filters, ack_wait_s=self.ack_wait_s, idle_s=None, headers_only=True
        )

        def session_config(session: str) -> ConsumerConfig:
            return consumer_config(
                durable_name(pool, role, session),
                role_filters(pool, kinds, session),
                ack_wait_s=self.ack_wait_s,
                idle_s=SESSION_CONSUMER_SECONDS,
            )

        open_sessions = self._open_session_indexes.setdefault(pool, OpenSessionIndex(self._link, pool))
        state = self._consumer_states.setdefault(
            (pool, role), SessionConsumersState(RoundRobin(random.Random().random))
        )
        consumer = FairConsumer(self._link, token_config, session_config, open_sessions, state, self._open.discard)
        self._open.add(consumer)
        return consumer

    async def history(
        self, session: str | None, *, after: int = 0, until: int | None = None
    ) -> list[tuple[int, Envelope]]:
        """Events of ``session`` (None: of all) above sequence ``after``, up to and with ``until``, in stream order."""
        return await read_until(Reader(self._link, session_filter(session), after), until)

    def tail(self, *, session: str | None = None, after: int = 0) -> Tail:
        """Events above sequence ``after`` in stream order: the past ones, then the live ones, without end."""
        tail = Tail(Reader(self._link, session_filter(session), after), self._open.discard)
        self._open.add(tail)
        return tail

    async def open_sessions(self, kind: type[Event]) -> list[str]:
        """Sessions of any pool that are not closed and in which a ``kind`` was said, the newest last."""
        index = OpenSessionIndex(self._link, ANY, kind)
        try:
            return await index.sessions(follow=False)
        finally:
            await index.aclose()

    async def request(self, name: str, payload: bytes, timeout: float) -> bytes:
        """Ask whoever serves ``name``; errors as :func:`kernelswarm.bus.rpc.request`."""
        return await rpc.request(self._link, name, payload, timeout)

    async def serve(self, name: str, handler: rpc.Handler) -> rpc.Service:
        """Answer requests for ``name`` until the returned service, or the bus, is closed."""
        service = rpc.Service(self._link, name, handler)
        await service.start()
        self._open.add(service)
        return service

    async def put_artifact(self, data: bytes, *, name: str, media_type: str) -> Artifact:
        """Store something large; what an event says of it."""
        return await self._artifacts.put(data, name=name, media_type=media_type)

    async def get_artifact(self, sha256: str) -> bytes:
        """Something large by its hash."""
        return await self._artifacts.get(sha256)

    async def heartbeat(self, presence: WorkerPresence) -> None:
        """Say that a worker lives; from now on it also answers :meth:`workers`, with what it said last."""
        await self._presence.heartbeat(presence)

    def leave(self, worker: str) -> None:
        """A worker has ended: it is no longer there."""
        self._presence.leave(worker)

    async def workers(self, timeout: float = 0.5) -> list[WorkerPresence]:
        """Who is there: everyone that answers until ``timeout`` seconds passed in silence, sorted by name."""
        return await self._presence.workers(timeout)

    async def close(self) -> None:
        """Close everything that was opened through it. What was delivered and not settled goes to other workers."""
        for opened in list(self._open):
            await opened.aclose()
        for open_sessions in self._open_session_indexes.values():
            await open_sessions.aclose()
        await self._link.close()

    async def __aenter__(self) -> "Bus":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
