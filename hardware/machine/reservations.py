"""Memory that sessions on one device reserve before they use it: what does not fit waits until others let go.

One folder per platform, host and device in :func:`.lease.lease_folder`. Every holder has a file there, locked with
``flock``, that says how many bytes it holds: the lock ends with its process, however that ends, and a file without a
lock counts for nothing. Whoever asks takes the *turnstile*, looks, and lets others look if it does not fit: small
requests pass large ones, which could not be served anyway. Whoever has waited for :data:`PASSED_S` keeps the turnstile:
a large request is not starved by small ones.
"""

import asyncio
import contextlib
import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...schemas import Pool
from .lease import is_locked, lease_folder, stem_of, unwritable

POLL_S = 0.1
"""How often a waiting request looks whether others have let go: nothing tells it that a holder was killed."""
PASSED_S = 60.0
"""So long a request is passed by others that fit; then nobody is served before it. It waits for those who passed it,
too, and a session may hold its memory for minutes."""

_LONGEST_LABEL = 80
_MOST_NAMES = 3

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Holding:
    """What somebody has reserved."""

    label: str
    size: int
    """Bytes."""


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

    def __init__(self, pool: Pool, home: Path, capacity: int, device: str = "") -> None:
        """``capacity`` is what there is to share, bytes. Touches no file yet."""
        self.capacity = capacity
        """Bytes."""
        self._place = f"device {device}" if device else f"pool {pool.name}"
        self._folder = lease_folder(home) / f"{stem_of(pool, device)}.memory"
        self._turnstile = self._folder / "turnstile"
        self._waiting = self._folder / "waiting"
        """Locked, together, by those who wait."""

    async def reserve(self, size: int, label: str, on_wait: Notice = lambda _: None) -> Reservation:
        """Reserve ``size`` bytes, or all there is if that is less; waits while others hold too much of it.

        ``label`` is what the others read. ``on_wait`` is told what is waited for, and in the end an empty text. Waits
        without blocking the loop; can be cancelled.

        Raises:
            InputError: the lock files cannot be made.
        """
        size = min(size, self.capacity)
        began, notified = time.monotonic(), False
        with self._lock_file(self._turnstile) as turnstile, self._lock_file(self._waiting) as waiting:
            while True:
                # Each time: whoever asks whether somebody waits has it locked for a moment.
                _is_taken(waiting, fcntl.LOCK_SH)
                if _is_taken(turnstile, fcntl.LOCK_EX):
                    others = self.holdings()
                    if sum(holding.size for holding in others) + size <= self.capacity:
                        reservation = self._hold(size, label)
                        break
                    if time.monotonic() - began < PASSED_S:
                        fcntl.flock(turnstile, fcntl.LOCK_UN)
                    if not notified:
                        notified = True
                        on_wait(self._waiting_for(size, others))
                await asyncio.sleep(POLL_S)
        if notified:
            on_wait("")
        return reservation

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
                holdings.append(Holding(label.strip(), int(size) if size.isdigit() else 0))
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
