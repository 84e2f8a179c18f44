"""A process that waits for a candidate to be profiled: importing torch takes seconds, which nobody should wait for."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from ..processes import wire
from ..processes.channel import Channel
from ..processes.limited_command import Finished, Limits, run_limited
from ..processes.messages import Failure
from ..processes.scratch import Scratch
from .messages import Answer, Inspect, Loaded, Measure, Measured, Warm, WarmUp

LARGEST_FILE = 1 << 30
END_SECONDS = 30.0
"""How long a process that has answered everything may take to end; Nsight Compute writes its table then."""
_NO_LIMIT = 1 << 60
"""CUDA maps address space far beyond the memory there is."""
_FOREVER = 1e7
"""Seconds. It may wait as long as the session lasts; once it has a candidate, every step has a limit of its own."""
_START = "import sys; sys.path[:] = {path!r}; from {module} import main; main(*sys.argv[1:])"

T = TypeVar("T", Warm, Loaded, Measured)


class NothingSeen(Exception):
    """A profiler has nothing to say of a candidate; the message is one sentence's end: why."""


class NeverStarted(NothingSeen):
    """It ended before it was given anything: the candidate has no part in it."""


@dataclass(frozen=True)
class Setting:
    """What every process that waits is, and gets to know of the machine."""

    program: str
    """Name of the module whose ``main`` calls the candidate."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to what it sees of ours: which device, where libraries are."""
    device: str = "cuda:0"
    """Where candidates compute, as torch names it."""
    target: str = ""
    """What Triton is made ready for (``sm_90``); empty: not at all."""
    cache: str = ""
    """Folder of Triton's driver module."""


class Standby:
    """One process, for one candidate. Ask in this order: :meth:`connected`, :meth:`warm_up` where there is time for it,
    :meth:`load`, :meth:`measure`, :meth:`end`.

    Each of them raises :class:`NothingSeen` if that is how far it goes. :meth:`close` in any case.
    """

    def __init__(
        self,
        mode: str,
        setting: Setting,
        wrapper: Callable[[Path], Sequence[str]] = lambda _: (),
        *,
        doors: str = "closed",
    ) -> None:
        """Starts the process, in a running loop.

        ``wrapper`` makes the command before it, given the tool's log file; :mod:`..harness.children.profiled_calls`
        says what ``doors`` are.
        """
        self.mode = mode
        self.isolation: tuple[str, ...] = ()
        """Layers in force around the candidate, once it is loaded."""
        self.output = b""
        """What the profiler wrote inside the process, once it has measured."""
        self._scratch = Scratch()
        self.log = self._scratch.path / "tool.log"
        """Where a tool around the process writes."""
        address = self._scratch.path / "socket"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(address))
        self._listener.listen(1)
        self._listener.setblocking(False)
        self._channel: Channel | None = None
        self._closed = False
        self._warm = False
        # The one folder that is still writable once the doors are shut, and only then Nsight Compute takes its lock.
        self._inner = self._scratch.path / "scratch"
        self._inner.mkdir()
        program = (*started(setting.program), str(address), mode, doors, setting.device, setting.target, setting.cache)
        self._running = asyncio.create_task(
            run_limited(
                [*wrapper(self.log), *program],
                cwd=self._scratch.path,
                limits=Limits(_FOREVER, _NO_LIMIT, LARGEST_FILE),
                environment={**setting.environment, "TMPDIR": str(self._inner)},
            ),
            name=f"profiler {mode}",
        )

    async def connected(self, seconds: float) -> None:
        """Wait until it is ready.

        Raises:
            NeverStarted: it ended, or does not come up.
        """
        if self._channel is not None:
            return
        accepting = asyncio.ensure_future(asyncio.get_running_loop().sock_accept(self._listener))
        try:
            await asyncio.wait({accepting, self._running}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not accepting.done():
                accepting.cancel()
        if accepting.done() and not accepting.cancelled():
            self._channel = Channel(accepting.result()[0])
            return
        if self._running.done():
            raise NeverStarted(await self.ending())
        raise NeverStarted(f"its process was not up within {seconds:g} s")

    async def warm_up(self, seconds: float) -> None:
        """Have it start the device's context and the profiler. A second time it does nothing."""
        if not self._warm:
            await self._ask(WarmUp(seconds=seconds), Warm, seconds)
            self._warm = True

    async def load(self, inspect: Inspect, files: Sequence[int]) -> None:
        """Have the candidate loaded and warmed up."""
        # With scopes its kernels are compiled anew, which takes ptxas.
        programs = inspect.programs or self.mode == "scopes"
        request = replace(inspect, scratch=str(self._inner), programs=programs)
        loaded = await self._ask(request, Loaded, inspect.seconds, files)
        self.isolation = loaded.isolation

    async def measure(self, seconds: float) -> None:
        """Have it called."""
        self.output = (await self._ask(Measure(), Measured, seconds)).output

    async def end(self) -> None:
        """Wait until it has ended by itself, its tool with it."""
        assert self._channel is not None
        self._channel.close()
        done, _ = await asyncio.wait({self._running}, timeout=END_SECONDS)
        if not done:
            raise NothingSeen(f"it did not end within {END_SECONDS:g} s")

    async def ending(self) -> str:
        """How its process ended, in words."""
        await asyncio.wait({self._running}, timeout=END_SECONDS)
        if not self._running.done() or self._running.cancelled():
            return "its process is gone"
        error = self._running.exception()
        return str(error) if error is not None else _described(self._running.result())

    async def close(self) -> None:
        """End the process, if it has not ended, and remove its folder. A second time it does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._channel is not None:
            self._channel.close()
        self._listener.close()
        self._running.cancel()
        await asyncio.wait({self._running})
        with contextlib.suppress(asyncio.CancelledError):
            # Asked, so that nobody complains of an error that was never asked for.
            self._running.exception()
        self._scratch.close()

    async def _ask(self, message: object, kind: type[T], seconds: float, files: Sequence[int] = ()) -> T:
        assert self._channel is not None
        try:
            async with asyncio.timeout(seconds):
                await self._channel.send(message, files)
                answer: Answer
                answer, received = await self._channel.receive(Answer)
        except TimeoutError:
            raise NothingSeen(f"no answer within {seconds:g} s") from None
        except (EOFError, OSError):
            raise NothingSeen(await self.ending()) from None
        except ValueError as error:
            raise NothingSeen(f"its process answered nonsense: {error}") from None
        wire.close_all(received)
        if isinstance(answer, Failure):
            raise NothingSeen(answer.message)
        if not isinstance(answer, kind):
            raise NothingSeen(f"its process answered {type(answer).__name__} where {kind.__name__} was asked for")
        return answer


def started(program: str) -> tuple[str, ...]:
    """The command that starts the module ``program``, without its arguments.

    It looks for modules where this process does, wherever that is: what a tool in between makes of PYTHONPATH, and what
    PYTHONPATH would make of the tool, must not matter.
    """
    path = [os.path.abspath(folder) for folder in sys.path]  # noqa: PTH100 - "" is the working folder
    return (sys.executable, "-P", "-c", _START.format(path=path, module=program))


def _described(finished: Finished) -> str:
    """How a process ended, and the end of what it printed."""
    lines = [line.strip() for line in finished.output.splitlines() if line.strip()]
    detail = f": {lines[-1][:300]}" if lines else ""
    return f"its process ended with exit status {finished.returncode}{detail}"
