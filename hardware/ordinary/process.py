"""One ordinary process as the supervisor holds it: it is asked, and timed from outside."""

import asyncio
import json
import os
import secrets
import select
import signal
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ...schemas import Schema
from ..harness.timing.idle_check import RESTLESS_SECONDS, runs, waits_until_idle
from ..harness.timing.placement import spread
from ..processes.fork_server import ForkServer
from ..processes.messages import HOST
from ..processes.worker import Worker, describe_end
from .trust import CONFINED, TRUSTED

LONGEST_LINE = 1 << 20
LONGEST_DATA = 64 << 20
LONGEST_REASON = 2000
IMPORT_SECONDS = 120.0
"""How long importing a module of torch may take on a busy machine."""
COMPILER_SECONDS = 10.0
"""How long a compiled baseline may still work after a call. It has nothing to gain by it, so it is waited for."""
PLACED_AFTER_S = 0.005
"""When the threads of a process that warms up are put on cores of their own: the pool is awake by then."""


class Missing(Exception):
    """Why there is no time of an ordinary process; a clause whose subject is the process or the file."""


@dataclass(frozen=True)
class Sampled:
    """Some elements of the outputs of one call."""

    copy: int
    """Which copy of the inputs the call got."""
    forms: Sequence[Sequence[Any]]
    """Type and shape of every output."""
    numbers: Sequence[Sequence[float]]


class _Answer(Schema, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a process may answer: its words are data, and of no other form."""

    failed: str = ""
    """Why it did not do what it was asked for."""
    copy: int = 0
    outputs: list[tuple[str, list[int]]] = []
    sizes: list[int] = []
    """Bytes of each output's elements, which follow."""


class OrdinaryProcess:
    """Asks a process of its own one thing at a time. Its methods block; run them in a thread."""

    def __init__(
        self, worker: Worker, server: ForkServer, label: str, trust: str = CONFINED, device: str = HOST
    ) -> None:
        """``worker`` is up, of ``server`` and of the running event loop."""
        self.label = label
        # Those of an accelerator's driver are many, and wait for nobody who computes beside them.
        self._places_threads = device == HOST
        self._restless_seconds = COMPILER_SECONDS if trust == TRUSTED else RESTLESS_SECONDS
        self.layers = worker.isolation
        """Those that hold around it, as reports carry them."""
        self.pid = worker.pid
        """Its process id as we see it; 0 if unknown."""
        self._worker = worker
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._socket = worker.duplicated_channel()
        self._is_lost = False
        self._left = b""

    @property
    def alive(self) -> bool:
        """Whether it has not ended, and answers. It ends with its fork server, within milliseconds."""
        return self._server.alive and self._worker.alive and not self._is_lost

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and to whatever it started."""
        self._worker.send(number)

    async def close(self) -> None:
        """End it and whatever it started."""
        await self._worker.kill()
        self._socket.close()

    def import_modules(self, names: Sequence[str]) -> None:
        """Have it import modules beside torch.

        Raises:
            Missing: that fails.
        """
        self._ask({"import": list(names)}, IMPORT_SECONDS, f"import {names[-1]}")

    def load(self, command: Mapping[str, Any], seconds: float) -> None:
        """Have it load its implementation.

        Raises:
            Missing: it does not load.
        """
        self._ask(command, seconds, "load")

    def time(self, calls: int, seconds: float, *, warm: int = 0, nothing: bool = False, unseen: int = 0) -> int:
        """Nanoseconds that ``calls`` take directly after ``warm`` others; of calls of nothing, if that is wanted, or on
        inputs that come once, drawn from the seed ``unseen`` and those that follow.

        It tells when it has made the first, and the others follow at once: where a process has stood still, the system
        may wake its threads on one core, and the first calls take milliseconds.

        Raises:
            Missing: it ended, took too long, or answered something else.
        """
        begin, end = secrets.token_hex(8), secrets.token_hex(8)
        self._socket.settimeout(seconds)
        try:
            command = {"do": "calls", "warm": warm, "calls": calls, "nothing": nothing, "unseen": unseen}
            self._socket.sendall(_line({**command, "begin": begin, "token": end}))
            placed = 0
            if warm and self._places_threads and not self._answers_within(PLACED_AFTER_S):
                before = time.perf_counter_ns()
                spread(self.pid)
                # It may have so many threads that it begins meanwhile, which is heard late: never in its favour.
                placed = before if self._answers_within(0.0) else 0
            heard = self._answered_at(begin, seconds)
            began = placed or heard
            ended = self._answered_at(end, seconds)
        except OSError as error:
            raise self._lost(error, f"make {calls} calls", seconds) from None
        return ended - began

    def _answers_within(self, seconds: float) -> bool:
        """Whether there is an answer within ``seconds``; ``select`` knows no descriptors above 1023."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def _answered_at(self, token: str, seconds: float) -> int:
        """When ``token`` was answered, nanoseconds."""
        expected = _line({"token": token})
        answer = self._socket.recv(len(expected))
        now = time.perf_counter_ns()
        if answer != expected:
            self._left += answer
            raise self._refused(self._received(seconds, "call"), "call")
        return now

    def check(self, copy: int, seed: int, seconds: float) -> Sampled:
        """Some elements of what a call on a copy of the inputs returns.

        Raises:
            Missing: as :meth:`time`.
        """
        return self._sampled({"do": "check", "copy": copy, "seed": seed}, seconds)

    def kept(self, seed: int, seconds: float) -> Sampled:
        """Some elements of what the last call returned that was timed.

        Raises:
            Missing: as :meth:`time`.
        """
        return self._sampled({"do": "kept", "seed": seed}, seconds)

    def unseen(self, call: int, seed: int, seconds: float) -> Sampled:
        """Some elements of what one of the last calls on unseen inputs returned.

        Raises:
            Missing: as :meth:`time`.
        """
        return self._sampled({"do": "unseen", "call": call, "seed": seed}, seconds)

    def wait_until_idle(self) -> None:
        """Wait until its threads sleep, so that they take no time from the next process.

        Raises:
            Missing: they go on computing.
        """
        until = time.monotonic() + self._restless_seconds
        for seconds in waits_until_idle(self.pid, self._restless_seconds):
            time.sleep(seconds)
        # Who was seen at rest before may wake for a moment: threads of an accelerator's driver do.
        if time.monotonic() >= until and runs(self.pid):
            raise self.restless()

    def restless(self) -> Missing:
        """It does not rest. Who waits for a core looks the same as who computes."""
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        waits = f", or waits for a core: the load is {load:.0f} on {cores}" if load > 2 * cores else ""
        return Missing(f"{self.label} computes while others are timed{waits}")

    def _sampled(self, command: Mapping[str, Any], seconds: float) -> Sampled:
        answer = self._ask(command, seconds, "call")
        if sum(answer.sizes) > LONGEST_DATA or any(size < 0 or size % 8 for size in answer.sizes):
            raise self._confused()
        numbers = [array("d", self._exactly(size, seconds)) for size in answer.sizes]
        if len(numbers) != len(answer.outputs):
            raise self._confused()
        return Sampled(answer.copy, answer.outputs, numbers)

    def _ask(self, command: Mapping[str, Any], seconds: float, action: str) -> _Answer:
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(_line(command))
        except OSError as error:
            raise self._lost(error, action, seconds) from None
        answer = self._received(seconds, action)
        if answer.failed:
            raise self._refused(answer, action)
        return answer

    def _received(self, seconds: float, action: str) -> _Answer:
        """One line of JSON."""
        self._socket.settimeout(seconds)
        while b"\n" not in self._left and len(self._left) < LONGEST_LINE:
            self._left += self._some(seconds, action)
        line, _, self._left = self._left.partition(b"\n")
        try:
            return msgspec.json.decode(line, type=_Answer)
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise self._confused() from None

    def _exactly(self, size: int, seconds: float) -> bytes:
        while len(self._left) < size:
            self._left += self._some(seconds, "call")
        data, self._left = self._left[:size], self._left[size:]
        return data

    def _some(self, seconds: float, action: str) -> bytes:
        try:
            data = self._socket.recv(1 << 20)
        except OSError as error:
            raise self._lost(error, action, seconds) from None
        if not data:
            raise self._lost(EOFError(), action, seconds)
        return data

    def _refused(self, answer: _Answer, action: str) -> Missing:
        reason = answer.failed[:LONGEST_REASON]
        return Missing(f"{self.label} fails to {action}: {reason}") if reason else self._confused()

    def _confused(self) -> Missing:
        self._is_lost = True
        return Missing(f"{self.label} answers something else than it was asked for")

    def _lost(self, error: Exception, action: str, seconds: float) -> Missing:
        self._is_lost = True
        if isinstance(error, TimeoutError):
            return Missing(f"{self.label} did not {action} within {seconds:g} s")
        return Missing(f"{self.label} died: {self._how_it_ended()}")

    def _how_it_ended(self) -> str:
        """The event loop hears of it, in another thread than this."""
        ended = asyncio.run_coroutine_threadsafe(self._worker.ended(), self._loop)
        try:
            return describe_end(ended.result(RESTLESS_SECONDS))
        except TimeoutError:
            ended.cancel()
            return "it closed its connection"


def _line(command: Mapping[str, Any]) -> bytes:
    return json.dumps(command).encode() + b"\n"
