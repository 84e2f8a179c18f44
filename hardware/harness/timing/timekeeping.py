"""The supervisor's side of the timekeeper, and of one process whose batches it times."""

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ....schemas import HarnessError
from ...processes import subprocesses, wire
from ...processes.channel import Channel
from ...processes.messages import Failure
from ...processes.worker import Worker, WorkerConfused, WorkerDied
from ..inputs.input_sets import LEAST_BATCHES, InputSets
from ..messages.batch import ArenaMade, Batch, Clear, Form, Keep, Kept, Made, MakeArena

T = TypeVar("T")

MOST_CHECKED = 8
"""Outputs that are read of a batch."""
RESTLESS_SHARE = 0.75
"""Of the calls made one by one before which it was looked: threads of an honest pool that others keep from going to
sleep show before half of them, and a thread that looks for inputs before nearly all."""
ANY_BYTES = 1 << 62
"""Of what a call in a process of our own returns: one that does nothing leaves the state of its problem."""


class TimekeeperDied(HarnessError):
    """The process that times others has ended, and with it all arenas; the next command starts another one."""


class TimekeeperProcess:
    """One for all that a launcher starts; it is started when it is first needed."""

    def __init__(self, home: Callable[[], Path]) -> None:
        """``home`` is the folder that it runs in."""
        self._home = home
        self._process: asyncio.subprocess.Process | None = None
        self._channel: Channel | None = None
        self._guard = asyncio.Lock()
        self._is_closed = False
        self.generation = 0
        """How many have been started: what was made by another one than the last is gone."""

    @property
    def pid(self) -> int:
        """Its process id; 0 if it does not run."""
        return self._process.pid if self._process else 0

    async def close(self) -> None:
        """End it for good: what still waits for its turn to ask starts no other one, which nobody would end."""
        self._is_closed = True
        await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await subprocesses.reaped(process)

    async def ask(self, command: object, kind: type[T], descriptors: Sequence[int] = ()) -> tuple[T, list[int]]:
        """Ask it; the descriptors that come back are the caller's.

        Raises:
            TimekeeperDied: it has ended.
        """
        # What was asked is answered, whoever still wants to know: the next answer would be taken for it.
        asking = asyncio.ensure_future(self._ask(command, kind, descriptors))
        asking.add_done_callback(_retrieved)
        return await asyncio.shield(asking)

    async def tell(self, command: object) -> None:
        """Say something that it does not answer. Nothing happens where it does not run."""
        async with self._guard:
            if self._channel is not None:
                with contextlib.suppress(OSError):
                    await self._channel.send(command)

    async def _ask(self, command: object, kind: type[T], descriptors: Sequence[int]) -> tuple[T, list[int]]:
        async with self._guard:
            channel = await self._started()
            try:
                await channel.send(command, descriptors)
                return await channel.receive(kind)
            except (EOFError, OSError, ValueError) as error:
                await self._end()
                raise TimekeeperDied(f"the process that times others has ended ({type(error).__name__})") from error

    async def _started(self) -> Channel:
        if self._is_closed:
            raise TimekeeperDied("nothing is timed any more: the device is closed")
        if self._channel is None:
            self._process, ours = await subprocesses.start_on_socket(f"{__package__}.timekeeper", cwd=self._home())
            self._channel = Channel(ours)
            self.generation += 1
        return self._channel


def _retrieved(asking: "asyncio.Task[Any]") -> None:
    """Take note of how it ended: where nobody waits any more, at the end of a session, nobody need be told."""
    if not asking.cancelled():
        asking.exception()


@dataclass(frozen=True)
class CheckedCall:
    """What a timed call left, in memory that its process cannot reach."""

    number: int
    """Which input set it got."""
    forms: tuple[Form, ...]
    file: int
    """Its tensors, contiguous and one behind the other; the holder closes it."""
    problem: str
    """Why they could not be read; empty if they were."""


@dataclass(frozen=True)
class TimedBatch:
    """How long a batch took, by the timekeeper's clock."""

    calls: int
    ns: int
    """From when its inputs could be read until the answer."""
    checked: tuple[CheckedCall, ...]
    steps_ns: tuple[int, ...] = ()
    """Of each call that did not follow a stop or a look, where they were made one by one."""
    is_restless: bool = False
    """Whether the process computed while it waited for their inputs."""


class Unseen:
    """The input sets that a process has not seen yet.

    Every batch gets as many judged ones, at secret places: a process that makes few calls is not looked at any less.
    """

    def __init__(self, sets: Iterable[int], judged: Container[int]) -> None:
        self._draw = random.SystemRandom()
        mixed = list(sets)
        self._draw.shuffle(mixed)
        self._judged = [number for number in mixed if number in judged]
        self._others = [number for number in mixed if number not in judged]
        self.each = max(1, len(self._judged) // LEAST_BATCHES)
        """Judged ones of a batch."""

    def has(self, calls: int) -> bool:
        """Whether there are enough for a batch."""
        return len(self._judged) >= min(self.each, calls) and len(self._judged) + len(self._others) >= calls

    def take(self, calls: int) -> list[int]:
        """The sets of a batch, in order; they are not unseen from then on."""
        judged = [self._judged.pop() for _ in range(min(self.each, calls))]
        numbers = judged + [(self._others or self._judged).pop() for _ in range(calls - len(judged))]
        self._draw.shuffle(numbers)
        return numbers


class TimedProcess:
    """One process, the arena that its inputs lie in, and the input sets that it has not seen yet."""

    def __init__(
        self, timekeeper: TimekeeperProcess, worker: Worker, supply: InputSets, *, is_ours: bool = False
    ) -> None:
        """``worker`` is the process, not yet given its arena; ``is_ours``: nothing has to be kept from it."""
        self._is_ours = is_ours
        self.worker = worker
        self._timekeeper = timekeeper
        self._supply = supply
        self._draw = random.SystemRandom()
        # The pool may be replaced by another one before this process has got its arena.
        self._pool = os.dup(supply.file)
        self._arena = 0
        self._generation = 0
        self._unseen = Unseen(range(supply.warm, supply.sets), supply.cases)

    async def make_arena(self) -> int:
        """Make its arena; returns the descriptor of its memory file, which the caller closes."""
        supply = self._supply
        command = MakeArena(
            stride=supply.stride,
            pool=supply.sets,
            sets=supply.most_calls,
            warm=supply.warm,
            is_written=supply.are_written,
        )
        made, (file,) = await self._timekeeper.ask(command, ArenaMade, (self._pool,))
        self._arena, self._generation = made.arena, self._timekeeper.generation
        return file

    @property
    def has_arena(self) -> bool:
        """Whether its arena is still there."""
        return self._arena > 0 and self._generation == self._timekeeper.generation and self._timekeeper.pid > 0

    async def clear(self) -> None:
        """Let go of the arena, and let the process run."""
        self.go_on()
        if self._pool >= 0:
            os.close(self._pool)
            self._pool = -1
        if self.has_arena:
            await self._timekeeper.tell(Clear(arena=self._arena))
        self._arena = 0

    def go_on(self) -> None:
        """Let it run: it stands still after each batch."""
        self.worker.go_on()

    def has_unseen(self, calls: int) -> bool:
        """Whether there are so many input sets that it has not seen."""
        return self._unseen.has(calls)

    async def can_be_read(self, name: str, seconds: float) -> bool:
        """Whether it can be stopped and its outputs be read: not every system permits that.

        Raises:
            WorkerDied, WorkerConfused, TimeoutError: as :meth:`.Worker.ask`.
        """
        reply, files = await self._exchange(Batch(calls=1, name=name), [0], [0], seconds, ANY_BYTES)
        wire.close_all(files)
        return reply.problems == ("",)

    async def batch(
        self, command: Batch, *, unseen: bool, most_checked: int = MOST_CHECKED, seconds: float
    ) -> TimedBatch | Failure:
        """Time one batch, on sets that it has not seen or on such as :meth:`_seen` gives.

        Raises:
            WorkerDied, WorkerConfused, TimeoutError: as :meth:`.Worker.ask`.
        """
        calls = command.calls
        numbers = self._unseen.take(calls) if unseen else self._seen(calls)
        checked = self._drawn(command, numbers, most_checked, unseen)
        reply, files = await self._exchange(command, numbers, checked, seconds, self._supply.most_output_bytes)
        answer = await self._answer(reply)
        if isinstance(answer, Failure):
            wire.close_all(files)
            return answer
        steps_ns = _undisturbed(reply.steps_ns, checked, reply.looked)
        is_restless = not self._is_ours and reply.restless > RESTLESS_SHARE * len(reply.looked)
        if not unseen:
            wire.close_all(files)
            return TimedBatch(calls, reply.ns, (), steps_ns, is_restless)
        problems = reply.problems or ("it does not stand still",) * len(files)
        calls_read = zip(checked, files, problems, strict=True)
        return TimedBatch(
            calls,
            reply.ns,
            tuple(CheckedCall(numbers[call], _forms(answer, call), file, why) for call, file, why in calls_read),
            steps_ns,
            is_restless,
        )

    def _seen(self, calls: int) -> list[int]:
        """Sets of which it may have seen some: of a process of ours any, since others lie in no cache yet."""
        if self._is_ours:
            return self._draw.choices(range(self._supply.sets), k=calls)
        return [number % self._supply.warm for number in range(calls)]

    def _drawn(self, command: Batch, numbers: Sequence[int], most: int, unseen: bool) -> list[int]:
        """After which calls, made one by one, it is stopped, or which of a batch are read when it is over.

        Who is not judged is stopped as often: its threads lie on other cores afterwards, as those of a candidate do.
        """
        if command.one_by_one:
            most = min(most, command.calls // 2)
        elif not unseen:
            return []
        eligible = [call for call, number in enumerate(numbers) if not unseen or number in self._supply.cases]
        return sorted(self._draw.sample(eligible, min(most, len(eligible))))

    async def _exchange(
        self, command: Batch, numbers: Sequence[int], checked: Sequence[int], seconds: float, most_bytes: int
    ) -> tuple[Kept, list[int]]:
        described = self._supply.described(numbers)
        now = 1 if command.one_by_one else len(described)
        command = msgspec.structs.replace(command, inputs=described[:now])
        keep = Keep(
            pid=self.worker.pid,
            arena=self._arena,
            sets=tuple(numbers),
            checked=tuple(checked),
            most_bytes=most_bytes,
            request=wire.frame(command),
            seconds=seconds,
            one_by_one=command.one_by_one,
            releases=tuple(map(wire.frame, described[now:])),
        )
        async with self.worker.lent() as channel:
            return await self._timekeeper.ask(keep, Kept, (channel,))

    async def _answer(self, reply: Kept) -> Made | Failure:
        if reply.late:
            await self.worker.kill()
            raise TimeoutError
        if not reply.answer:
            raise WorkerDied(await self.worker.ended())
        try:
            return wire.unframe(reply.answer, Made | Failure)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            await self.worker.kill()
            raise WorkerConfused(str(error)) from error


def _undisturbed(steps_ns: tuple[int, ...], checked: Sequence[int], looked: Sequence[int]) -> tuple[int, ...]:
    """Without the calls before which the process stood still, or was looked at: its caches are others' then."""
    stopped = {0, *(call + 1 for call in checked), *looked}
    return tuple(ns for call, ns in enumerate(steps_ns) if call not in stopped) or steps_ns


def _forms(answer: Made, call: int) -> tuple[Form, ...]:
    """What a call's outputs are like, as its process says; nothing where it says nonsense."""
    if call >= len(answer.calls) or not answer.calls[call] or not 0 <= answer.calls[call][0] < len(answer.forms):
        return ()
    return answer.forms[answer.calls[call][0]]
