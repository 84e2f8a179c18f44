"""Fork servers: processes that import once what all their children need, and fork a child for each order.

:func:`serve` is the program; :class:`ForkServers` starts it, replaces one that died, and ends it with whoever used it
last. It is bound to no event loop: a server may be asked from any thread.
"""

import atexit
import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from . import sandbox, wire
from .machine_load import load_text, slowdown
from .messages import Done
from .namespaces import leave_network
from .scratch import Scratch

START_SECONDS = 120.0
"""How long importing torch or Triton may take, and longer where programs wait for cores (:func:`.slowdown`)."""
LOOK_SECONDS = 1.0
"""How often is looked, while a server starts, whether it may take longer, and whether somebody still wants it."""
ORDER_SECONDS = 30.0
"""How long forking may: the server does nothing else."""

Child = Callable[[Any, list[int], tuple[str, ...]], NoReturn]
"""What a forked process does, given its order, the descriptors beside it, and the layers of isolation so far."""


def serve(descriptor: int, orders: type[Any], load: Callable[[], Child]) -> None:
    """Load what all children need, then fork one for each order on the socket ``descriptor`` until its other end is
    gone. All children end with this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before anything is loaded: a process with threads may not leave its user namespace.
    layers = leave_network()
    # What is imported stays: to look for garbage in it again and again would take a fifth of the CPU time.
    gc.disable()
    child = load()
    gc.collect()
    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    spaces = sandbox.ProcessSpaces()
    wire.send(control, Done())
    while True:
        try:
            order: Any
            order, descriptors = wire.receive(control, orders)
        except (EOFError, ConnectionError):
            return
        pid, apart = spaces.fork()
        if pid == 0:
            control.close()
            child(order, descriptors, (*layers, *(("pidns",) if apart else ())))
        wire.close_all(descriptors)


class ForkServerError(Exception):
    """A fork server does not come up, or keeps dying; the message ends with what it printed last."""


@dataclass(frozen=True)
class Program:
    """What a fork server runs. Those with equal programs share one."""

    module: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(compare=False)
    """All that it gets to see of ours."""
    identity: tuple[tuple[str, str], ...]
    """What of the environment makes its children differ."""
    pid: int = field(default_factory=os.getpid)
    """Process that it belongs to: one that was forked from us has servers of its own."""


class ForkServer:
    """The process."""

    def __init__(self, program: Program, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Starts it and waits until it can fork, as long as it ``is_wanted``.

        Raises:
            ForkServerError: it does not come up.
        """
        self.program = program
        self._scratch = Scratch()
        folder = self._scratch.path
        log = folder / "fork_server.log"
        self._control, theirs = socket.socketpair()
        with theirs, log.open("wb") as printed:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", program.module, str(theirs.fileno()), *program.arguments],
                cwd=folder,
                # numpy's own pool would be threads in the process that forks.
                env={"OPENBLAS_NUM_THREADS": "1", **program.environment, "HOME": str(folder), "TMPDIR": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        try:
            self._wait_until_up(is_wanted)
            wire.receive(self._control, Done)
        except (EOFError, OSError) as error:
            last_line = _last_line(log)
            self.close()
            reason = str(error) if isinstance(error, TimeoutError) else type(error).__name__
            raise ForkServerError(f"with {sys.executable} ({reason}): {last_line}") from error
        self._control.settimeout(ORDER_SECONDS)

    def _wait_until_up(self, is_wanted: Callable[[], bool]) -> None:
        """Wait until it says something, or ends.

        Raises:
            TimeoutError: it takes too long, also for a machine as busy as this one was meanwhile.
        """
        began, longest_s = time.monotonic(), START_SECONDS
        self._control.settimeout(LOOK_SECONDS)
        while True:
            try:
                self._control.recv(1, socket.MSG_PEEK)
                break
            except TimeoutError:
                longest_s, seconds = max(longest_s, START_SECONDS * slowdown()), time.monotonic() - began
                if seconds >= longest_s or not is_wanted():
                    raise TimeoutError(f"it still starts after {seconds:.0f} s{load_text()}") from None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended so far."""
        return self._process.poll() is None

    def fork(self, order: object, descriptors: Sequence[int]) -> None:
        """Have a child forked.

        Raises:
            OSError: it is gone.
        """
        wire.send(self._control, order, descriptors)

    def close(self) -> None:
        """End it, and with it its children. In a process that was forked from its supervisor: only let go of it."""
        self._control.close()
        if self.program.pid == os.getpid():
            self._process.kill()
            self._process.wait()
            self._scratch.close()


class ForkServers:
    """The fork servers of this process, each shared by all that have its program."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._starting: dict[Program, threading.Lock] = {}
        self._servers: dict[Program, ForkServer] = {}
        self._users: Counter[Program] = Counter()
        self._kept = 0

    def use(self, program: Program) -> None:
        """Count one more user of ``program``, who calls :meth:`leave` in the end."""
        with self._guard:
            self._users[program] += 1

    def leave(self, program: Program) -> None:
        """Count one user less; with the last one the server ends, unless servers are kept."""
        with self._guard:
            self._users[program] -= 1
            server = None if self._users[program] > 0 or self._kept else self._servers.pop(program, None)
        if server is not None:
            server.close()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """While the body runs, servers that nobody uses wait for the next user: starting one takes seconds."""
        with self._guard:
            self._kept += 1
        try:
            yield
        finally:
            with self._guard:
                self._kept -= 1
                idle = [] if self._kept else [p for p in self._servers if self._users[p] <= 0]
                servers = [self._servers.pop(program) for program in idle]
            for server in servers:
                server.close()

    def start(self, program: Program) -> None:
        """Have its server running. Blocks while it starts.

        Raises:
            ForkServerError: it does not come up.
        """
        with self._starts(program):
            self._started(program)

    def fork(self, program: Program, order: object, ends: Sequence[socket.socket]) -> ForkServer:
        """Have a child forked, by a new server if there is none or it has died. Blocks, mostly for no time at all.

        ``ends`` go to the child, and are closed here in any case.

        Raises:
            ForkServerError: no server comes up, or each of them dies.
        """
        try:
            with self._starts(program):
                for _ in range(2):
                    server = self._started(program)
                    with contextlib.suppress(OSError):
                        server.fork(order, [end.fileno() for end in ends])
                        return server
                    self._drop(program)
        finally:
            for end in ends:
                end.close()
        raise ForkServerError(f"with {sys.executable}: it keeps dying")

    def living(self, program: Program) -> ForkServer | None:
        """Its server, if one runs."""
        with self._guard:
            server = self._servers.get(program)
        return server if server is not None and server.alive else None

    def close(self) -> None:
        """End all of them."""
        with self._guard:
            servers = list(self._servers.values())
            self._servers.clear()
        for server in servers:
            server.close()

    def _starts(self, program: Program) -> threading.Lock:
        with self._guard:
            return self._starting.setdefault(program, threading.Lock())

    def _started(self, program: Program) -> ForkServer:
        server = self.living(program)
        if server is not None:
            return server
        self._drop(program)
        # Whoever waited may have left: what nobody counts as a user's is waited for in any case.
        server = ForkServer(program, lambda: self._users.get(program, 1) > 0)
        with self._guard:
            self._servers[program] = server
        return server

    def _drop(self, program: Program) -> None:
        with self._guard:
            server = self._servers.pop(program, None)
        if server is not None:
            server.close()


FORK_SERVERS = ForkServers()
"""Those of this process."""
atexit.register(FORK_SERVERS.close)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
