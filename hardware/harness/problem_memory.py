"""Memory reservations of this process's problems, and which of them give theirs up when others wait.

Idle ones are let go, too, where their descriptors are most of those that the process may have.
"""

import asyncio
import contextlib
import resource
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from ...schemas import Accelerator, Problem, ProblemFacts
from ..machine.reservations import InUse, MemoryReservations, Notice, Reservation
from .judgement import ran_out_of_memory
from .memory_demand import (
    CONTEXT_BYTES,
    SHARES_OF_VALIDATION,
    demand_after_shortage,
    demand_of,
    demand_of_validation_again,
    demands_of_validation,
)
from .peak_use import PeakUse
from .validation_process import OutOfMemory

T = TypeVar("T")
Reason = Callable[[T], str]

IDLE_S = 60.0
"""A problem that nobody has used for so long gives its memory up if somebody waits for some; or for as long as the
longest of its steps took, if that is less: starting its processes again costs no more than keeping others waiting."""
CHECK_S = 1.0
"""How often is looked whether somebody waits."""
DESCRIPTORS_SHARE = 0.5
"""Of the descriptors that this process may have: with more open, idle problems let go of theirs, too. One that was
judged keeps some eighty, most of them its cases' inputs, and many systems permit 1,024."""
DESCRIPTORS = (Path("/proc/self/fd"), Path("/dev/fd"))
"""Where a system lists those of a process: Linux, others."""


class ProblemMemory:
    """The reservations of one device's problems. A problem keeps its memory between steps: its processes stay warm."""

    def __init__(
        self,
        reservations: MemoryReservations,
        accelerator: Accelerator | None,
        forget: Callable[[str], Awaitable[None]],
        *,
        idle_s: float = IDLE_S,
        in_use: InUse = lambda: None,
    ) -> None:
        """``forget`` ends the processes of a problem, by its sha256, before its memory is given up.

        ``in_use`` says how much of the device's memory is.
        """
        self.reservations = reservations
        """Of all processes."""
        self._accelerator = accelerator
        self._forget = forget
        self._idle_s = idle_s
        self._in_use = in_use
        self._demand: dict[str, int] = {}
        """Bytes that each problem reserves: as estimated, or as was seen once that was too little."""
        self._held: dict[str, Reservation] = {}
        self._users: dict[str, int] = defaultdict(int)
        self._last_used: dict[str, float] = {}
        self._longest_s: dict[str, float] = defaultdict(float)
        """Of the steps of each problem."""
        self._guards: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._repeating: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._repeats: dict[str, int] = defaultdict(int)
        """How many steps of each problem are done once more, or wait for that."""
        self._notices: dict[str, Notice] = {}
        self._waited_s: dict[str, float] = defaultdict(float)
        self._waits_since: dict[str, list[float]] = defaultdict(list)
        """When each of the waits began that are not over."""
        self._yielding: asyncio.Task[None] | None = None

    def notify(self, problem: Problem, notice: Notice) -> None:
        """Tell ``notice`` what the problem waits for, and with an empty text that it does no longer."""
        self._notices[problem.sha256] = notice

    def waited_s(self, problem: Problem) -> float:
        """Seconds in which the problem waited for memory that others held, since it was last let go of."""
        now = time.monotonic()
        return self._waited_s[problem.sha256] + now - min(self._waits_since[problem.sha256], default=now)

    @contextlib.asynccontextmanager
    async def using(self, problem: Problem, facts: ProblemFacts | None) -> AsyncIterator[None]:
        """Have the problem's memory while the body runs; waits until it is there. Without ``facts`` nothing is held.

        Not to be asked for while the lease is held.
        """
        key = problem.sha256
        self._users[key] += 1
        began = time.monotonic()
        try:
            async with self._guards[key]:
                if facts is not None and key not in self._held:
                    self._held[key] = await self._reserved(problem, facts)
                    began = time.monotonic()
            yield
        finally:
            self._users[key] -= 1
            self._last_used[key] = now = time.monotonic()
            self._longest_s[key] = max(self._longest_s[key], now - began)

    async def validated(self, problem: Problem, attempt: Callable[[int], Awaitable[T]]) -> T:
        """What ``attempt`` comes to, which is told how many bytes of an accelerator its tensors may take; 0: no limit.

        It has a share of the accelerator's memory first. Where that is too little it is done once more with as much
        as it said that it takes, or with a larger share, and in the end with all of it. Main memory is reserved only
        for what ran out of it beside neighbours. Not to be asked for while the lease is held.

        Raises:
            OutOfMemory: all of the memory is too little.
        """
        if self._accelerator is None:
            try:
                return await attempt(0)
            except OutOfMemory:
                if not self.reservations.holdings():
                    raise
        else:
            capacity = self.reservations.capacity
            demands = demands_of_validation(capacity)
            while demands:
                demand = demands.pop(0)
                try:
                    async with self._reserving(problem, demand):
                        return await attempt(demand - CONTEXT_BYTES)
                except OutOfMemory as error:
                    expected = demand_of_validation_again(error.needed_bytes)
                    if error.needed_bytes and demand < expected:
                        demands = [expected] if expected < capacity else []
        async with self.alone(problem):
            return await attempt(0)

    @contextlib.asynccontextmanager
    async def alone(self, problem: Problem) -> AsyncIterator[None]:
        """Have all of the device's memory while the body runs: problems of this process that are not in use let go."""
        for key in [key for key in self._held if not self._users[key]]:
            await self._give_up(key)
        async with self._reserving(problem, self.reservations.capacity):
            yield

    async def unless_short(
        self,
        problem: Problem,
        attempt: Callable[[], Awaitable[T]],
        reason: Reason[T],
        make_room: Callable[[str], Awaitable[None]] | None = None,
    ) -> T:
        """What ``attempt`` comes to; where an accelerator's memory ran out, it is done once more with all of it.

        What is done once more waits for its like, too: the steps of one problem may have been too many for the memory.
        Afterwards the problem keeps what was seen to be in use, with a margin, and others have the rest.
        ``reason`` says what went wrong; ``make_room`` has the problem's other processes, by its sha256, hand back what
        they keep. For a problem that is in use; not to be asked for while the lease is held.
        """
        result = await attempt()
        if self._accelerator is None or not ran_out_of_memory(reason(result)):
            return result
        key = problem.sha256
        demand = self._demand.get(key, 0)
        self._repeats[key] += 1
        try:
            await self._have_all(problem)
            peak = PeakUse(self._in_use)
            async with self._repeating[key], peak.observing():
                if make_room is not None:
                    await make_room(key)
                result = await attempt()
            # What all of the memory is too little for says nothing of the problem's other steps.
            if not ran_out_of_memory(reason(result)):
                self._demand[key] = max(self._demand.get(key, 0), demand_after_shortage(demand, peak.size))
            return result
        finally:
            self._repeats[key] -= 1
            if not self._repeats[key]:
                self._give_rest_back(problem)

    async def _have_all(self, problem: Problem) -> None:
        """Hold all of the memory, waiting for the problem's neighbours to end."""
        key = problem.sha256
        async with self._guards[key]:
            held = self._held.get(key)
            if held is not None and held.size >= self.reservations.capacity:
                return
            for other in [other for other in self._held if other != key and not self._users[other]]:
                await self._give_up(other)
            # First of all: two that want everything would wait for each other.
            if held is not None:
                self._held.pop(key).release()
            everything = self.reservations.capacity
            self._held[key] = await self._reserve(problem, everything, problem.name)

    def _give_rest_back(self, problem: Problem) -> None:
        key = problem.sha256
        held, demand = self._held.get(key), self._demand.get(key, 0)
        if held is None or demand >= held.size:
            return
        if demand:
            self._held[key] = self.reservations.shrunk(held, demand, problem.name)
        else:
            self._held.pop(key).release()

    def release(self, key: str) -> None:
        """Let others have the memory of the problem with this sha256, whose processes have ended."""
        self._notices.pop(key, None)
        self._waited_s.pop(key, None)
        reservation = self._held.pop(key, None)
        if reservation is not None:
            reservation.release()

    async def close(self) -> None:
        """Let go of everything."""
        if self._yielding is not None:
            self._yielding.cancel()
            await asyncio.wait({self._yielding})
        for key in list(self._held):
            self.release(key)

    async def _reserved(self, problem: Problem, facts: ProblemFacts) -> Reservation:
        if self._yielding is None:
            self._yielding = asyncio.create_task(self._yield_when_idle(), name="memory of idle problems")
        demand = self._demand.setdefault(problem.sha256, demand_of(facts, self._accelerator))
        return await self._reserve(problem, demand, problem.name)

    @contextlib.asynccontextmanager
    async def _reserving(self, problem: Problem, size: int) -> AsyncIterator[None]:
        brief = size <= SHARES_OF_VALIDATION[0] * self.reservations.capacity
        reservation = await self._reserve(problem, size, f"{problem.name}, validating", brief=brief)
        try:
            yield
        finally:
            reservation.release()

    async def _reserve(self, problem: Problem, size: int, label: str, *, brief: bool = False) -> Reservation:
        waits, began = self._waits_since[problem.sha256], time.monotonic()
        waits.append(began)
        try:
            return await self.reservations.reserve(size, label, self._notice(problem), brief=brief)
        finally:
            waits.remove(began)
            if not waits or began < min(waits):
                self._waited_s[problem.sha256] += min(waits, default=time.monotonic()) - began

    def _notice(self, problem: Problem) -> Notice:
        def tell(text: str) -> None:
            # Looked up when there is something to say: the display may have come since.
            if notice := self._notices.get(problem.sha256):
                notice(text)

        return tell

    async def _yield_when_idle(self) -> None:
        while True:
            await asyncio.sleep(min(CHECK_S, self._idle_s))
            idle = [key for key in self._held if self._is_idle(key)]
            if idle and (self.reservations.is_wanted() or _are_descriptors_scarce()):
                for key in idle:
                    await self._give_up(key)

    def _is_idle(self, key: str) -> bool:
        idle_s = time.monotonic() - self._last_used.get(key, 0.0)
        return not self._users[key] and idle_s > min(self._idle_s, self._longest_s[key])

    async def _give_up(self, key: str) -> None:
        async with self._guards[key]:
            if not self._users[key]:
                await self._forget(key)


def _are_descriptors_scarce() -> bool:
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most != resource.RLIM_INFINITY and _open_descriptors() > DESCRIPTORS_SHARE * most


def _open_descriptors() -> int:
    return next((sum(1 for _ in folder.iterdir()) for folder in DESCRIPTORS if folder.is_dir()), 0)
