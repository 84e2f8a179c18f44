"""The recorder: everything that is said on the bus, written down once, in order, by the only writer of the log."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ..bus import Bus, NobodyServes
from ..bus.alive import running_beside
from ..bus.bulk import BulkConsumer, stream_identity
from ..bus.pull import ConsumerGone
from ..schemas import StoreError, decode
from .errors import LogBusyError
from .location import log_path
from .log import Log
from .query import Query, serve, service_name, step_back

BATCH = 4000
"""Events in one transaction at most. A transaction has a price of its own, ten tables' worth of it."""

LINGER_SECONDS = 0.01
"""How long a batch waits for company."""

CROWD = 100
CROWD_LINGER_SECONDS = 0.1
"""The same while so many or more come at a time: fewer transactions leave more of the machine to everybody else."""

_RETRY_SECONDS = 0.2
_QUERIES_AT_ONCE = 2

T = TypeVar("T")
_log = logging.getLogger("kernelswarm.store")


class Recorder:
    """Writes what the bus carries into a log, acknowledging after the commit, and answers queries meanwhile.

    ``log`` is an open :class:`Log`, or the path of one: then the recorder opens it when nobody else has it, and closes
    it at the end. So every process of a home may run a recorder: the first one records, the next one takes over.
    """

    def __init__(self, log: Log | Path, bus: Bus) -> None:
        self._given = log
        self._bus = bus
        self._changed = asyncio.Condition()
        self._stream = ""
        self._log: Log | None = None
        self.started = asyncio.Event()
        """Set once it records and answers queries."""

    async def run(self) -> None:
        """Record until cancelled. What is being written then is finished first.

        Raises:
            StoreError: the log cannot be written (a full disk). What was not written stays on the bus.
            BusError: the server stayed away for too long.
        """
        with (
            ThreadPoolExecutor(1, "recorder") as writer,
            ThreadPoolExecutor(_QUERIES_AT_ONCE, "queries", step_back) as readers,
        ):
            async with self._opened(writer) as log, self._serving(log, readers):
                while True:
                    with contextlib.suppress(ConsumerGone):
                        await self._follow(log, writer)

    async def recorded(self, seq: int) -> None:
        """Wait until everything up to stream sequence ``seq`` is written down durably."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._log is not None and self._log.last_seq(self._stream) >= seq)

    @contextlib.asynccontextmanager
    async def _opened(self, writer: ThreadPoolExecutor) -> AsyncIterator[Log]:
        if isinstance(self._given, Log):
            yield self._given
            return
        log = await _open_when_free(self._given, writer)
        try:
            yield log
        finally:
            await _finished(writer, log.close)

    @contextlib.asynccontextmanager
    async def _serving(self, log: Log, readers: ThreadPoolExecutor) -> AsyncIterator[None]:
        async def sql(payload: bytes) -> bytes:
            return await serve(log, decode(payload, Query), readers)

        async def recorded(payload: bytes) -> bytes:
            await self.recorded(int(payload))
            return b""

        home = log.path.parent
        async with contextlib.AsyncExitStack() as stack:
            for name, handler in (
                ("sql", sql),
                (service_name(home), sql),
                (service_name(home, "recorded"), recorded),
            ):
                service = await self._bus.serve(name, handler)
                stack.push_async_callback(service.aclose)
            yield

    async def _follow(self, log: Log, writer: ThreadPoolExecutor) -> None:
        self._stream = await stream_identity(self._bus)
        # The durable belongs to this log: two homes on one bus each hear everything.
        consumer = BulkConsumer(self._bus, f"recorder-{log.id[:16]}", log.last_seq(self._stream))
        await consumer.open()
        self._log = log
        await self._announce()
        self.started.set()
        try:
            batch: list[tuple[int, bytes]] = []
            while True:
                crowded = len(batch) >= CROWD
                batch = await consumer.batch(BATCH, CROWD_LINGER_SECONDS if crowded else LINGER_SECONDS)
                await self._write(log, batch, writer)
                await consumer.ack()
                await self._announce()
        finally:
            await consumer.aclose()

    async def _write(self, log: Log, batch: Sequence[tuple[int, bytes]], writer: ThreadPoolExecutor) -> None:
        batch = sorted(batch)
        while True:
            try:
                await _finished(writer, lambda: log.append(batch, stream=self._stream))
                return
            except LogBusyError as error:
                _log.warning("store: recording waits: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _announce(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def wait_recorded(home: Path, bus: Bus, seq: int, *, timeout: float = 30.0) -> None:
    """Wait until the recorder of ``home``, in whichever process it runs, has written everything up to ``seq``.

    Raises:
        StoreError: it has not within ``timeout`` seconds.
    """
    try:
        async with asyncio.timeout(timeout):
            while True:
                with contextlib.suppress(NobodyServes):
                    await bus.request(service_name(home, "recorded"), str(seq).encode(), timeout)
                    return
                await asyncio.sleep(_RETRY_SECONDS)  # it may be about to start
    except TimeoutError as error:
        raise StoreError(
            f"The recorder of {log_path(home)} has not written event {seq} of the stream within {timeout:g} s: "
            "it stays on the event bus and is written when a recorder runs again."
        ) from error


@contextlib.asynccontextmanager
async def recording(home: Path, bus: Bus) -> AsyncIterator[Recorder]:
    """Run a recorder for ``home`` while the body runs; if it fails, the body is cancelled and its error raised.

    Raises:
        StoreError, BusError: as :meth:`Recorder.run`.
    """
    recorder = Recorder(log_path(home), bus)
    async with running_beside(recorder.run(), "recorder"):
        yield recorder


async def _open_when_free(path: Path, writer: ThreadPoolExecutor) -> Log:
    logged = False
    while True:
        try:
            return await _finished(writer, lambda: Log.open(path), Log.close)
        except LogBusyError as error:
            if not logged:
                _log.info("store: this process records when another one ends: %s", error)
            logged = True
            await asyncio.sleep(_RETRY_SECONDS)  # a file lock has no event to wait for


async def _finished(
    writer: ThreadPoolExecutor, work: Callable[[], T], undo: Callable[[T], object] = lambda _: None
) -> T:
    """Do blocking ``work``; a cancellation takes effect after it, because a thread cannot be stopped.

    ``undo`` what was done then, since nobody gets it: a log that stayed open would be in the way of the next recorder.
    """
    running = asyncio.get_running_loop().run_in_executor(writer, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if running.exception() is None:
            undo(running.result())
        raise
