"""Times batches of other processes, from outside.

It is a process of its own: whatever the supervisor does meanwhile, the clock is read in time.

The process that is timed stands still while its inputs are written. The clock runs from the moment it may go on until
its answer is
here; then it stands still again, and the outputs of some calls, which only the supervisor knew, are read out of its
memory. What the process says is where its outputs lie, and nothing else of what it says counts.
"""

import contextlib
import fcntl
import mmap
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence

import msgspec

from ...processes import linux, wire
from ...processes.messages import Failure
from ..messages.batch import ArenaMade, Clear, Keep, Kept, Made, MakeArena, TimekeeperCommand
from .answers import payload_of, read_outputs
from .freezing import Frozen
from .steps import STOP_SECONDS, timed_one_by_one

_F_SEAL_FUTURE_WRITE = 0x10
"""Linux 5.1; Python 3.11 does not name it."""
_SEALS = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class Arena:
    """Input sets in memory that only this process writes, or one more: that whose calls write their inputs."""

    def __init__(self, command: MakeArena, pool: int) -> None:
        self._stride = command.stride
        self._process: Frozen | None = None
        self._pool = mmap.mmap(pool, command.stride * command.pool, mmap.MAP_SHARED, mmap.PROT_READ)
        self.file = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, command.stride * command.sets)
        self._memory = mmap.mmap(self.file, command.stride * command.sets)
        self._target = memoryview(self._memory)
        self._source = memoryview(self._pool)
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, _SEALS | (0 if command.is_written else _F_SEAL_FUTURE_WRITE))
        self.fill([number % command.warm for number in range(command.sets)])

    def fill(self, sets: Sequence[int]) -> None:
        """Write these sets of the pool, in this order."""
        for position, number in enumerate(sets):
            self.write(position, number)

    def write(self, position: int, number: int) -> None:
        """Write one set of the pool."""
        begin, stride = position * self._stride, self._stride
        self._target[begin : begin + stride] = self._source[number * stride : (number + 1) * stride]

    def process_of(self, pid: int) -> Frozen:
        """The process whose batches these are the inputs of."""
        if self._process is None or self._process.pid != pid:
            self._process = Frozen(pid)
        return self._process

    def close(self) -> None:
        """Let go of the memory; processes that map it keep theirs."""
        if self._process is not None:
            self._process.close()
        self._target.release()
        self._source.release()
        self._memory.close()
        self._pool.close()
        os.close(self.file)


class Timekeeper:
    """Answers the supervisor's commands, one at a time."""

    def __init__(self) -> None:
        self._arenas: dict[int, Arena] = {}
        self._count = 0

    def make_arena(self, command: MakeArena, descriptors: list[int]) -> tuple[ArenaMade, list[int]]:
        """Make an arena."""
        self._count += 1
        self._arenas[self._count] = arena = Arena(command, descriptors[0])
        return ArenaMade(arena=self._count), [arena.file]

    def clear(self, command: Clear) -> None:
        """Forget an arena."""
        self._arenas.pop(command.arena).close()

    def keep(self, command: Keep, descriptors: list[int]) -> tuple[Kept, list[int]]:
        """Time one batch; the process stands still in the end."""
        arena = self._arenas[command.arena]
        process = arena.process_of(command.pid)
        with socket.socket(fileno=os.dup(descriptors[0])) as channel:
            try:
                if not process.stop(STOP_SECONDS):
                    return Kept(ns=0, answer=b"", late=True), []
                if command.one_by_one:
                    arena.fill(command.sets[:1])
                    process.place()
                    write = arena.write
                    return timed_one_by_one(process, channel, command, lambda call: write(call, command.sets[call]))
                arena.fill(command.sets)
                process.place()
                return _timed(process, channel, command)
            except (ProcessLookupError, ConnectionError, EOFError):
                return Kept(ns=0, answer=b""), []


def _timed(process: Frozen, channel: socket.socket, command: Keep) -> tuple[Kept, list[int]]:
    channel.settimeout(command.seconds)
    began = time.perf_counter_ns()
    channel.sendall(command.request)
    process.go_on()
    try:
        payload = payload_of(channel)
    except (TimeoutError, OverflowError):
        process.stop(STOP_SECONDS)
        return Kept(ns=0, answer=b"", late=True), []
    answered = time.perf_counter_ns()
    still = process.stop(STOP_SECONDS)
    reply = Kept(ns=answered - began, answer=payload, late=not still)
    problems, files = _outputs(process, payload, command) if still else ((), [])
    return msgspec.structs.replace(reply, problems=problems), files


def _outputs(process: Frozen, payload: bytes, command: Keep) -> tuple[tuple[str, ...], list[int]]:
    """Why there is nothing in the memory file of a checked call, if so, and these files."""
    try:
        answer: Made | Failure = wire.unframe(payload, Made | Failure)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return (), []
    if isinstance(answer, Failure):
        return (), []
    read = [read_outputs(process, answer, call, command.most_bytes) for call in command.checked]
    return tuple(problem for problem, _ in read), [file for _, file in read]


def main(descriptor: int) -> None:
    """Serve the supervisor on the socket ``descriptor`` until its other end is gone."""
    linux.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reaper = Timekeeper()
    with socket.socket(fileno=descriptor) as supervisor, contextlib.suppress(EOFError, ConnectionError):
        while True:
            command: TimekeeperCommand
            command, descriptors = wire.receive(supervisor, TimekeeperCommand)
            try:
                _serve(reaper, supervisor, command, descriptors)
            finally:
                wire.close_all(descriptors)


def _serve(reaper: Timekeeper, supervisor: socket.socket, command: TimekeeperCommand, descriptors: list[int]) -> None:
    if isinstance(command, Clear):
        reaper.clear(command)
    elif isinstance(command, MakeArena):
        wire.send(supervisor, *reaper.make_arena(command, descriptors))
    else:
        reply, files = reaper.keep(command, descriptors)
        wire.send(supervisor, reply, files)
        wire.close_all(files)


if __name__ == "__main__":
    main(int(sys.argv[1]))
