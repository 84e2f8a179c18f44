"""Memory that sessions on one device reserve before they use it: what does not fit waits until others let go.

One folder per platform, host and device in :func:`.lease.lease_folder`. Every holder has a file there, locked with
``flock``, that says how many bytes it holds: the lock ends with its process, however that ends, and a file without a
lock counts for nothing. Whoever asks looks, alone, and lets others look if it does not fit: small requests pass large
ones, which could not be served anyway. Whoever has waited for :data:`PASSED_S` keeps the *turnstile*, which everybody
has to pass who does not hold little memory for moments: a large request is not starved by small ones.

What is reserved is an estimate, and on the safe side. Holders who have been there for :data:`WATCHED_S`, all of which
somebody watched, count together as what was in use at most and :data:`MARGIN` on top, but as :data:`LEAST_SHARE` of
what they reserved at least.
"""

import asyncio
import contextlib
import fcntl
import math
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...schemas import Pool
from .file_locks import is_locked
from .lease import lease_folder, stem_of, unwritable

POLL_S = 0.1
"""How often a waiting request looks whether others have let go: nothing tells it that a holder was killed."""
PASSED_S = 60.0
"""So long a request is passed by others that fit; then nobody is served before it but who is brief. It waits for those
who passed it, too, and a session may hold its memory for minutes."""

WATCHED_S = 30.0
"""So long holders are watched before what is in use counts instead of what they reserved: most have begun by then."""
WATCH_S = 1.0
"""How often is looked what is in use, while somebody waits."""
MOST_MISSED = 3
"""Looks that may be missing, where the machine stood still for one."""
MARGIN = 1.25
"""Of what was seen to be in use: so much counts, since the next step, or another order of it, may take more."""
LEAST_SHARE = 0.5
"""Of what holders reserved: so much counts whatever is in use, since some may have waited for something else."""

_LONGEST_LABEL = 80
_MOST_NAMES = 3

Notice = Callable[[str], None]
InUse = Callable[[], int | None]
"""Bytes that are in use now; None where nobody can tell."""


@dataclass(frozen=True)
class Holding:
    """What somebody has reserved."""

    name: str
    """Of its file: nobody else's ever."""
    label: str
    size: int
    """Bytes."""


class _Watch:
    """What is in use while somebody waits, and since when each holder is known."""

    def __init__(self, in_use: InUse) -> None:
        self._in_use = in_use
        self._since: dict[str, float] = {}
        self._last = -math.inf
        self._seen: deque[tuple[float, int]] = deque()
        """When how much was in use, in the last :data:`WATCHED_S`."""

    async def look(self, holdings: list[Holding]) -> None:
        """Look once in :data:`WATCH_S` at most."""
        now = time.monotonic()
        since_last_s = now - self._last
        if since_last_s < WATCH_S:
            return
        self._last = now
        if since_last_s > MOST_MISSED * WATCH_S:
            # Nobody waited, and nobody saw what was in use.
            self._seen.clear()
        self._since = {holding.name: self._since.get(holding.name, now) for holding in holdings}
        size = await asyncio.to_thread(self._in_use)
        if size is None:
            self._seen.clear()
            return
        self._seen.append((now, size))
        while now - self._seen[0][0] > WATCHED_S:
            self._seen.popleft()

    def taken(self, holdings: list[Holding], capacity: int) -> int:
        """Bytes that ``holdings`` count as; who holds all there is is to be alone, whatever it uses."""
        now = time.monotonic()
        is_watched = self._seen and now - self._seen[0][0] > WATCHED_S - MOST_MISSED * WATCH_S
        if not is_watched or now - self._seen[-1][0] > MOST_MISSED * WATCH_S:
            return sum(holding.size for holding in holdings)
        began = now - WATCHED_S
        settled = [h for h in holdings if h.size < capacity and self._since.get(h.name, math.inf) <= began]
        others = sum(holding.size for holding in holdings if holding not in settled)
        reserved = sum(holding.size for holding in settled)
        seen = max(MARGIN * max(size for _, size in self._seen), LEAST_SHARE * reserved)
        return others + min(int(seen), reserved)


class Reservation:
    """Memory that was reserved; :meth:`release` it once it is free again."""

    def __init__(self, path: Path, file: int, size: int) -> None:
        self.size = size
        """Bytes."""
        self._path, self._file = path, file

    def release(self) -> None:
        """Let others have it. A second time it does nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            self._path.unlink(missing_ok=True)
            # By name: a child that was forked meanwhile shares the lock until it execs.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


class MemoryReservations:
    """The memory of this host for ``pool``'s platform, or of one ``device`` (its uuid), shared by all processes."""

    def __init__(self, pool: Pool, home: Path, capacity: int, device: str = "", in_use: InUse = lambda: None) -> None:
        """``capacity`` is what there is to share, bytes, ``in_use`` says how much is. Touches no file yet."""
        self.capacity = capacity
        """Bytes."""
        self._place = f"device {device}" if device else f"pool {pool.name}"
        self._folder = lease_folder(home) / f"{stem_of(pool, device)}.memory"
        self._watch = _Watch(in_use)
        self._turnstile = self._folder / "turnstile"
        self._looking = self._folder / "looking"
        self._waiting = self._folder / "waiting"
        """Locked, together, by those who wait."""

    async def reserve(
        self, size: int, label: str, on_wait: Notice = lambda _: None, *, brief: bool = False
    ) -> Reservation:
        """Reserve ``size`` bytes, or all there is if that is less; waits while others hold too much of it.

        ``label`` is what the others read. ``on_wait`` is told what is waited for, and in the end an empty text.
        ``brief``: little, and for moments, so that it holds up nobody who waits for long. Waits without blocking the
        loop; can be cancelled.

        Raises:
            InputError: the lock files cannot be made.
        """
        size = min(size, self.capacity)
        began, notified = time.monotonic(), False
        with self._lock_file(self._turnstile) as turnstile, self._lock_file(self._waiting) as waiting:
            while True:
                # Each time: whoever asks whether somebody waits has it locked for a moment.
                _is_taken(waiting, fcntl.LOCK_SH)
                if brief or _is_taken(turnstile, fcntl.LOCK_EX):
                    reservation = self._held_if_it_fits(size, label)
                    if reservation is not None:
                        break
                    if not brief and time.monotonic() - began < PASSED_S:
                        fcntl.flock(turnstile, fcntl.LOCK_UN)
                others = self.holdings()
                if others and not notified:
                    notified = True
                    on_wait(self._waiting_for(size, others))
                await self._watch.look(others)
                await asyncio.sleep(POLL_S)
        if notified:
            on_wait("")
        return reservation

    def _held_if_it_fits(self, size: int, label: str) -> Reservation | None:
        """The reservation, if there is room for it and nobody else looks at this moment."""
        with self._lock_file(self._looking) as looking:
            if not _is_taken(looking, fcntl.LOCK_EX):
                return None
            others = self.holdings()
            fits = sum(holding.size for holding in others) + size <= self.capacity
            if not fits and size < self.capacity:
                fits = self._watch.taken(others, self.capacity) + size <= self.capacity
            return self._hold(size, label) if fits else None

    def shrunk(self, reservation: Reservation, size: int, label: str) -> Reservation:
        """What is held in place of ``reservation``, which is released: ``size`` bytes of it, for ``label``.

        Raises:
            InputError: the lock file cannot be made.
        """
        # For a moment both are there: nobody sees less than is in use.
        smaller = self._hold(min(size, reservation.size), label)
        reservation.release()
        return smaller

    def holdings(self) -> list[Holding]:
        """What is reserved now, by every process. Files that a killed holder left are removed."""
        holdings = []
        for path in sorted(self._folder.glob("*.held")):
            try:
                file = os.open(path, os.O_RDWR)
            except (FileNotFoundError, IsADirectoryError):
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                size, _, label = os.read(file, 1024).decode(errors="replace").partition(" ")
                holdings.append(Holding(path.name, label.strip(), int(size) if size.isdigit() else 0))
            else:
                path.unlink(missing_ok=True)
            finally:
                os.close(file)
        return holdings

    def is_wanted(self) -> bool:
        """Whether somebody waits for memory."""
        return is_locked(self._waiting)

    @contextlib.contextmanager
    def _lock_file(self, path: Path) -> Iterator[int]:
        """Its descriptor, with no lock yet and none in the end."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise unwritable(self._folder, error) from error
        try:
            yield file
        finally:
            # By name: a child that was forked meanwhile shares the lock until it execs.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def _hold(self, size: int, label: str) -> Reservation:
        path = self._folder / f"{os.getpid()}-{uuid.uuid4().hex}.held"
        new = path.with_suffix(".new")
        try:
            file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(file, f"{size} {' '.join(label.split())[:_LONGEST_LABEL]}\n".encode())
            # Only now: whoever looks takes a file without a lock for that of a dead holder.
            new.rename(path)
        except OSError as error:
            raise unwritable(self._folder, error) from error
        return Reservation(path, file, size)

    def _waiting_for(self, size: int, others: list[Holding]) -> str:
        names = [f"{holding.label} ({_gib(holding.size)})" for holding in others[:_MOST_NAMES]]
        more = f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
        return (
            f"waiting for {_gib(size)} of the {_gib(self.capacity)} of memory that {self._place} has: held by "
            f"{', '.join(names)}{more}"
        )


def _is_taken(file: int, mode: int) -> bool:
    """Take the lock of an open file if it can be had now, or keep it: whether that is so."""
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
