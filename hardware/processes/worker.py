"""One child, as the supervisor holds it: channel, parent-death socket, and the end of what it printed."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from . import wire
from .channel import Channel
from .linux import LESS_URGENT
from .messages import Ended, Failure, Hello
from .time_limit import time_limit, waited_seconds

T = TypeVar("T")

OUTPUT_BYTES = 8192
"""How much of the end of its output is kept."""
OUTPUT_SECONDS = 0.02
"""How long none of it is taken after some was."""
KILL_SECONDS = 10.0


class WorkerDied(Exception):
    """The child ended while it was asked something; the message says how."""

    def __init__(self, ended: Ended) -> None:
        self.ended = ended
        super().__init__(describe_end(ended))


class WorkerConfused(Exception):
    """The child answered something that is no answer."""


def describe_end(ended: Ended) -> str:
    """``killed by SIGSEGV`` or ``exited with status 3``."""
    if not ended.signal:
        return f"exited with status {ended.exit_code}"
    try:
        return f"killed by {signal.Signals(ended.signal).name}"
    except ValueError:
        return f"killed by signal {ended.signal}"


class Worker:
    """Asks a child one thing at a time."""

    def __init__(
        self,
        channel: socket.socket,
        parent_death: socket.socket,
        output: socket.socket,
        *,
        scratch: Path,
        label: str,
        answers: Any,
    ) -> None:
        """``answers`` is the type of what it may answer."""
        self.label = label
        self._answers = answers
        self.isolation = ""
        """Layers in force, as reports carry them."""
        self.pid = 0
        """Its process id as we see it; 0 if unknown."""
        self._channel = Channel(channel)
        self._parent_death = Channel(parent_death)
        self._parent_death_socket = parent_death
        self._output = output
        self._printed = bytearray()
        self._scratch = scratch
        self._turn, self._ending = asyncio.Lock(), asyncio.Lock()
        self._ended: Ended | None = None
        output.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(output, self._read_output)
        self._pause: asyncio.TimerHandle | None = None
        """Until output is read again."""

    @property
    def alive(self) -> bool:
        """Whether it has not ended: its reaper tells of an end at once, or is gone with it."""
        if self._ended is not None:
            return False
        try:
            self._parent_death_socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @property
    def output(self) -> str:
        """End of what it printed."""
        return self._printed.decode("utf-8", errors="replace")

    async def greet(self, seconds: float) -> None:
        """Wait until it is up.

        Raises:
            EOFError, TimeoutError, ValueError: it does not come up.
        """
        async with asyncio.timeout(seconds):
            self.pid = await self._channel.peer_pid()
            hello: Hello
            hello, descriptors = await self._channel.receive(Hello)
        wire.close_all(descriptors)
        self.isolation = "+".join(hello.isolation)

    def yield_to_others(self) -> None:
        """Run it when nobody else wants the cores: judging can wait, compiling the baselines is waited for."""
        if self.pid:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.pid, LESS_URGENT)

    async def ask(
        self,
        command: object,
        kind: type[T],
        descriptors: Sequence[int] = (),
        *,
        seconds: float,
        stood: Callable[[], float] = lambda: 0.0,
    ) -> tuple[T | Failure, list[int]]:
        """Ask and wait; the descriptors that come back are the caller's. Cancelled, it lets go of the child.

        ``stood``: seconds in which it was made to stand still meanwhile, which do not count.

        Raises:
            WorkerDied: it ended.
            TimeoutError: it took longer than ``seconds``, less what its threads waited for a core (:mod:`.time_limit`);
                it has been killed.
            WorkerConfused: it answered something else; it has been killed.
        """
        async with self._turn:
            answer, received = await self._exchange(command, descriptors, seconds, stood)
        if isinstance(answer, kind | Failure):
            return answer, received
        wire.close_all(received)
        await self.kill()
        raise WorkerConfused(f"{type(answer).__name__} where {kind.__name__} was asked for")

    async def _exchange(
        self, command: object, descriptors: Sequence[int], seconds: float, stood: Callable[[], float]
    ) -> tuple[Any, list[int]]:
        if self._ended is not None:
            raise WorkerDied(self._ended)
        try:
            async with time_limit(seconds, lambda: waited_seconds(self.pid) if self.pid else 0.0, stood):
                await self._channel.send(command, descriptors)
                return await self._channel.receive(self._answers)
        except TimeoutError:
            await self.kill()
            raise
        except (EOFError, OSError):
            raise WorkerDied(await self._await_end()) from None
        except ValueError as error:
            await self.kill()
            raise WorkerConfused(str(error)) from error
        except asyncio.CancelledError:
            # The answer may still come and would be taken for that of the next command.
            self.abandon()
            raise

    @contextlib.asynccontextmanager
    async def lent(self) -> AsyncIterator[int]:
        """The descriptor of its channel, for somebody who sends it one command and takes the answer.

        Raises:
            WorkerDied: it has ended.
        """
        async with self._turn:
            if self._ended is not None:
                raise WorkerDied(self._ended)
            try:
                yield self._channel.fileno()
            except BaseException:
                self.abandon()
                raise

    def duplicated_channel(self) -> socket.socket:
        """Another end of its channel, for somebody who alone speaks with it from now on, and not in these frames."""
        return socket.socket(fileno=os.dup(self._channel.fileno()))

    def go_on(self) -> None:
        """Let it run, where it was stopped."""
        if self.pid and self._ended is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGCONT)

    def stand_still(self) -> None:
        """Stop it until :meth:`go_on`."""
        if self.pid and self._ended is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGSTOP)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its whole group, the compilers that it runs included."""
        if self.pid and self._ended is None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)

    async def ended(self) -> Ended:
        """How it ended; waits for that, and lets go of it."""
        return await self._await_end()

    async def kill(self) -> None:
        """End it and everything it started, and wait until that is done."""
        if self._ended is None:
            with contextlib.suppress(OSError):
                self._parent_death_socket.send(b"k")
            await self._await_end()

    def abandon(self) -> None:
        """Let go without waiting: its reaper kills it."""
        if self._ended is None:
            self._ended = Ended(exit_code=-1, signal=signal.SIGKILL)
            self._close()

    async def _await_end(self) -> Ended:
        # One after the other: of two that wait for the reaper's answer the first would never hear it.
        async with self._ending:
            if self._ended is None:
                ended = Ended(exit_code=-1, signal=signal.SIGKILL)
                try:
                    async with asyncio.timeout(KILL_SECONDS):
                        ended, _ = await self._parent_death.receive(Ended)
                except (EOFError, OSError, ValueError):
                    # The reaper is gone too, which only a dying fork server does to it.
                    pass
                finally:
                    if self._ended is None:  # it was let go of meanwhile
                        self._ended = ended
                        self._close()
            return self._ended

    def _close(self) -> None:
        self._read_output()
        self._stop_reading()
        for end in (self._channel, self._parent_death, self._output):
            end.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _read_output(self) -> None:
        """Take some of what it printed. Who floods waits then: in this process others' answers are timed."""
        self._stop_reading()
        for _ in range(4):
            try:
                chunk = self._output.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                return
            if not chunk:
                return
            self._printed += chunk
            del self._printed[:-OUTPUT_BYTES]
        self._pause = self._loop.call_later(OUTPUT_SECONDS, self._loop.add_reader, self._output, self._read_output)

    def _stop_reading(self) -> None:
        self._loop.remove_reader(self._output)
        if self._pause is not None:
            self._pause.cancel()
