"""Who may use the machine now: verifying shares it, timing has it alone. On a processor compiling shares it too.

Two lock files per platform, host and device in :func:`lease_folder`. A holder has the *room* locked, shared or
exclusive. Whoever wants in first takes the *turnstile*, alone, and keeps it while waiting for the room: so a waiter for
the exclusive lease stops the stream of sharers behind it and cannot starve. ``flock`` ends with the process, however
it ends. (Courtois, Heymans, Parnas: Concurrent Control with "Readers" and "Writers", CACM 1971, with the turnstile.)

Within a process the exclusive lease is handed on to whoever waits for it there. Timing and verifying would take turns
one by one otherwise, and those who share would never share.
"""

import asyncio
import contextlib
import fcntl
import math
import os
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

from platformdirs import user_data_path

from ...schemas import InputError, Pool
from .file_locks import Attempt, is_locked

T = TypeVar("T")

MOST_IN_A_ROW = 4
"""Exclusive holders of one process in a row, before whoever else waits has a turn."""

DRAIN_SECONDS = 0.25
"""What a process has launched on an accelerator goes on while it stands still: nobody else is timed for so long. Beside
such work a right kernel's calls took twenty times what its device said, and it was convicted of tampering."""

PATIENCE_S = 1.0
"""How long somebody waits before it is said that others have the machine."""

OTHERS = "another session is at work on this machine: timing, compiling and verifying take turns, so both take longer"


def lease_folder(home: Path) -> Path:
    """Where the lock files lie: one folder for all homes of a user, since they share the machine.

    ``KERNELSWARM_LEASES`` names another one, relative to ``home``. Without a user data folder each home has its own.
    """
    if chosen := os.environ.get("KERNELSWARM_LEASES"):
        return home / chosen
    shared = user_data_path("kernelswarm", appauthor=False) / "leases"
    with contextlib.suppress(OSError):
        shared.mkdir(parents=True, exist_ok=True, mode=0o700)
    return shared if os.access(shared, os.W_OK | os.X_OK) else home / "leases"


def unwritable(folder: Path, error: OSError) -> InputError:
    """That lock files cannot be made in ``folder``, and what helps."""
    return InputError(
        f"cannot write the lock files in {folder}: {error.strerror}; set KERNELSWARM_HOME or KERNELSWARM_LEASES to a "
        "folder that can be written"
    )


def stem_of(pool: Pool, device: str = "") -> str:
    """What the names of lock files begin with: platform, host, and the uuid of a device, if it is one."""
    return ".".join(filter(None, (pool.platform, socket.gethostname(), device)))


@contextlib.contextmanager
def alone_now(pool: Pool, home: Path) -> Iterator[bool]:
    """Hold the machine alone while the body runs, if nobody has it: whether that is so. Blocks nobody who asks."""
    folder = lease_folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    room = os.open(folder / f"{stem_of(pool)}.room", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(room, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        # By name: a child that was forked meanwhile shares the lock until it execs.
        fcntl.flock(room, fcntl.LOCK_UN)
        os.close(room)


class Lease:
    """The lease on this host's hardware for ``pool``'s platform, or on one ``device`` of it (its uuid).

    By platform, not by pool: two pools of one machine disturb each other's timing just as two sessions of one do.
    Devices do not: what runs on one leaves the timing of another alone.
    """

    def __init__(self, pool: Pool, home: Path, device: str = "") -> None:
        stem = stem_of(pool, device)
        self._compiling_shares = pool.platform == "cpu"
        self.drain_s = 0.0 if pool.platform == "cpu" else DRAIN_SECONDS
        """How long what a process began goes on once it stands still."""
        self._folder = lease_folder(home)
        self._room = self._folder / f"{stem}.room"
        self._turnstile = self._folder / f"{stem}.turnstile"
        self._heirs: deque[asyncio.Future[Attempt | None]] = deque()
        """Who waits in this process for the exclusive lease of another one here."""
        self._taken = False
        """Whether this process has the exclusive lease, or asks for it."""
        self._in_a_row = 0
        self._steady = 0
        """How many here are at work that cannot stand still."""
        self._holders = 0
        """How many hold it here, together or alone."""
        self._left_at = -math.inf
        """When the last one left: until the next one here is in, it may seem to be another session's."""
        self.on_others: Callable[[str], None] | None = None
        """Told once, in a sentence, that others than the holders here have the machine, while somebody here waits."""

    @contextlib.asynccontextmanager
    async def shared(self, *, makes_way: bool = False) -> AsyncIterator["Share"]:
        """Hold the machine together with other sharers. Waits without blocking the loop; can be cancelled.

        ``makes_way``: whether the holder lets go of it (:meth:`Share.make_way`) soon after somebody waits.

        Raises:
            InputError: the lock files cannot be made.
        """
        share = Share(self)
        try:
            await share.enter()
            with contextlib.nullcontext() if makes_way else self.steady():
                yield share
        finally:
            share.leave()

    @contextlib.asynccontextmanager
    async def compiling(self) -> AsyncIterator[None]:
        """Compile: on a processor as a sharer, beside an accelerator freely, whoever times something there.

        Raises:
            InputError: the lock files cannot be made.
        """
        if not self._compiling_shares:
            yield
            return
        async with self.shared():
            yield

    @contextlib.asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Hold the machine alone. Waits without blocking the loop; can be cancelled. Not to be asked for inside shared.

        Raises:
            InputError: the lock files cannot be made.
        """
        attempt = await self._inherited() or await self._entered()
        try:
            yield
        finally:
            self._hand_on(attempt)

    @contextlib.contextmanager
    def steady(self) -> Iterator[None]:
        """Something that cannot stand still is at work: whoever makes way here meanwhile would do so for nothing."""
        self._steady += 1
        try:
            yield
        finally:
            self._steady -= 1

    def is_wanted(self) -> bool:
        """Whether somebody, in this process or another, waits for it, and for those alone who make way."""
        if self._steady:
            return False
        if any(not heir.done() for heir in self._heirs):
            return True
        return is_locked(self._turnstile)

    async def _inherited(self) -> Attempt | None:
        """The lease from whom this process had it; None if nobody here has it, or had it too often already."""
        while self._taken:
            turn: asyncio.Future[Attempt | None] = asyncio.get_running_loop().create_future()
            self._heirs.append(turn)
            try:
                attempt = await turn
            except asyncio.CancelledError:
                # Its turn may have come in the same moment.
                if turn.done() and not turn.cancelled() and (attempt := turn.result()) is not None:
                    self._hand_on(attempt)
                else:
                    self._wake()
                raise
            if attempt is not None:
                return attempt
        return None

    async def _entered(self) -> Attempt:
        self._taken = True
        attempt = None
        try:
            attempt = self.attempt(fcntl.LOCK_EX)
            await self.enter(attempt)
        except BaseException:
            self._let_go(attempt)
            raise
        return attempt

    async def enter(self, attempt: Attempt) -> None:
        """Go in. Who waits for long while nobody here is in says that others are."""
        telling = asyncio.get_running_loop().create_task(self._tell_of_others())
        try:
            await attempt.enter()
        finally:
            telling.cancel()
        attempt.entered = True
        self._holders += 1

    def leave(self, attempt: Attempt) -> None:
        """Leave the room, or the queue for it."""
        self._holders -= attempt.entered
        self._left_at = time.monotonic() if attempt.entered else self._left_at
        attempt.entered = False
        attempt.give_up()

    async def _tell_of_others(self) -> None:
        while self.on_others is not None:
            await asyncio.sleep(PATIENCE_S)
            if self.on_others is not None and not self._holders and time.monotonic() - self._left_at >= PATIENCE_S:
                tell, self.on_others = self.on_others, None
                tell(OTHERS)

    def _hand_on(self, attempt: Attempt) -> None:
        heir = self._next_heir() if self._in_a_row < MOST_IN_A_ROW - 1 else None
        if heir is None:
            self._let_go(attempt)
            return
        self._in_a_row += 1
        heir.set_result(attempt)

    def _let_go(self, attempt: Attempt | None) -> None:
        """Give the lease, or the place in the queue for it, back."""
        if attempt is not None:
            self.leave(attempt)
        self._taken = False
        self._in_a_row = 0
        self._wake()

    def _wake(self) -> None:
        """Have who is next here ask for the lease himself."""
        if not self._taken and (heir := self._next_heir()):
            heir.set_result(None)

    def _next_heir(self) -> "asyncio.Future[Attempt | None] | None":
        while self._heirs:
            if not (heir := self._heirs.popleft()).done():
                return heir
        return None

    def attempt(self, mode: int) -> Attempt:
        """A way in, shared or exclusive."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return Attempt(self._turnstile, self._room, mode)
        except OSError as error:
            raise unwritable(self._folder, error) from error


class Share:
    """A sharer's hold of the machine, which it may let go of on the way."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self._waited_s, self._since = 0.0, math.inf
        self._attempt: Attempt | None = None

    async def enter(self) -> None:
        """Go in."""
        self._attempt = self.lease.attempt(fcntl.LOCK_SH)
        await self.lease.enter(self._attempt)

    def leave(self) -> None:
        """Let go."""
        if self._attempt is not None:
            attempt, self._attempt = self._attempt, None
            self.lease.leave(attempt)

    @property
    def is_held(self) -> bool:
        """Whether the holder is in, and does not make way."""
        return self._attempt is not None and self._attempt.entered

    @property
    def waited_s(self) -> float:
        """Seconds in which others had the machine so far, between :meth:`enter` and :meth:`leave`."""
        return self._waited_s + max(0.0, time.monotonic() - self._since)

    async def make_way(self, *, drain_s: float = 0.0) -> None:
        """Let whoever waits for the machine have it, and go in again; nothing of the holder's may be at work.

        ``drain_s``: how long what it began goes on.
        """
        if self.lease.is_wanted():
            self._since = time.monotonic()
            try:
                await asyncio.sleep(drain_s)
                if self.lease.is_wanted():
                    self.leave()
                    await self.enter()
            finally:
                self._waited_s, self._since = self.waited_s, math.inf


@contextlib.asynccontextmanager
async def counted(lease: contextlib.AbstractAsyncContextManager[T], waits: list[float]) -> AsyncIterator[T]:
    """Hold ``lease``; ``waits`` gets the seconds until it was there."""
    began = time.monotonic()
    async with lease as held:
        waits.append(time.monotonic() - began)
        yield held
