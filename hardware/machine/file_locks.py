"""Locks of files that a lease is made of: asked for without blocking the loop, given up at any time."""

import asyncio
import contextlib
import fcntl
import os
import threading
from pathlib import Path


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock of the file at ``path``; nobody does where there is none."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


class Attempt:
    """One way in, from the turnstile to the end of holding the room."""

    def __init__(self, turnstile: Path, room: Path, mode: int) -> None:
        self._mode = mode
        self._guard = threading.Lock()
        self._turnstile = os.open(turnstile, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._room = os.open(room, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            os.close(self._turnstile)
            raise
        self._in_queue = False
        self._given_up = False
        self.entered = False
        """Whether the holder counts as one."""

    async def enter(self) -> None:
        """Go in, at once or when it is our turn."""
        if not self._at_once():
            await self._wait()

    def _at_once(self) -> bool:
        try:
            fcntl.flock(self._turnstile, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            fcntl.flock(self._room, self._mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)
        return True

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        entered: asyncio.Future[None] = loop.create_future()

        def tell(error: OSError | None) -> None:
            if entered.done():
                return
            if error is None:
                entered.set_result(None)
            else:
                entered.set_exception(error)

        def block() -> None:
            error = self._block()
            # The loop may be closed when a waiter that was cancelled comes to its turn.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(tell, error)

        # A daemon: a waiter that was cancelled must not hold up the end of the process.
        self._in_queue = True
        threading.Thread(target=block, name="lease", daemon=True).start()
        await entered

    def give_up(self) -> None:
        """Leave the room, or the queue for it. The thread of a cancelled waiter ends at its turn, holding nothing."""
        with self._guard:
            self._given_up = True
            # Unlocked by name, not by closing alone: a child forked meanwhile shares the locks until it execs. And a
            # cancelled waiter has to let those behind it through now, although its thread still waits for the room.
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)
            fcntl.flock(self._room, fcntl.LOCK_UN)
            if not self._in_queue:
                self._close()

    def _block(self) -> OSError | None:
        error = None
        try:
            fcntl.flock(self._turnstile, fcntl.LOCK_EX)
            if not self._given_up:
                fcntl.flock(self._room, self._mode)
        except OSError as caught:
            error = caught
        with self._guard:
            self._in_queue = False
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)
            if self._given_up:
                fcntl.flock(self._room, fcntl.LOCK_UN)
                self._close()
        return error

    def _close(self) -> None:
        os.close(self._room)
        os.close(self._turnstile)
