"""Stands between fork server and child: reports how the child ended, and sees to it that nothing of it is left."""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from . import linux, wire
from .messages import Ended

LOOK_SECONDS = 0.5


class Reaper:
    """Made before the child is forked, so that no end of it can be missed."""

    def __init__(self, parent_death: int) -> None:
        self._parent_death = socket.socket(fileno=parent_death)
        # Neither end blocks: this process must not stand still, whoever else may read or write there.
        self._alarm, self._wake = os.pipe()
        for end in (self._alarm, self._wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        linux.adopt_orphans()

    def leave(self) -> None:
        """In the child: have nothing of what its reaper hears by."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._parent_death.close()
        os.close(self._alarm)
        os.close(self._wake)

    def until_the_end(self, child: int, excess: Callable[[], str] | None = None) -> NoReturn:
        """Wait until the child ends or the parent-death socket has something, report, exit.

        ``excess`` is asked twice a second why the child has to be killed; empty if it has not.
        """
        ended: Ended | None = None
        poll = select.poll()  # select() takes no descriptor from 1024 on, and who judges many problems has more
        poll.register(self._parent_death, select.POLLIN)
        poll.register(self._alarm, select.POLLIN)
        milliseconds = None if excess is None else 1e3 * LOOK_SECONDS
        asked = time.monotonic()
        while ended is None:
            ready = {descriptor for descriptor, _ in poll.poll(milliseconds)}
            why = ""
            # By the clock: a child that has it woken again and again would never be looked at.
            if excess is not None and time.monotonic() - asked >= LOOK_SECONDS:
                why, asked = excess(), time.monotonic()
            if self._parent_death.fileno() in ready or why:
                _kill_group(child)
                ended = _reap(child, wait=True)
            elif self._alarm in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._alarm, 4096)
                ended = _reap(child, wait=False)
        _kill_group(child)
        _kill_descendants()
        with contextlib.suppress(OSError):
            wire.send(self._parent_death, ended)
        os._exit(0)


def _reap(child: int, *, wait: bool) -> Ended | None:
    while True:
        try:
            pid, status = os.waitpid(-1, 0 if wait else os.WNOHANG)
        except ChildProcessError:
            return Ended(exit_code=-1, signal=signal.SIGKILL)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return Ended(exit_code=max(code, -1), signal=max(-code, 0))
        if pid == 0:
            return None


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(leader, signal.SIGKILL)


def _kill_descendants() -> None:
    """Kill what left the group: it has become our own child, since we adopt orphans."""
    for _ in range(1000):
        try:
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        except OSError:
            return
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(child), 0)
