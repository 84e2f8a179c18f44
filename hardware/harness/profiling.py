"""Times one candidate against the baselines. The supervisor's side."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from ...schemas import (
    CompileReport,
    Counters,
    HardwareFacts,
    HarnessError,
    Problem,
    ProblemFacts,
    ProfileReport,
    Timing,
    Verdict,
)
from ..machine.floors import Floor, floor_of
from ..machine.lease import Lease, Share, counted
from ..machine.peaks import measured_again
from ..machine.roofline import roofline
from . import fresh_data
from .baseline_process import BaselineProcess
from .deaths import BaselinesDied
from .fresh_data import Memoizes
from .judgement import Judged
from .launcher import Launcher
from .loading import load_into, started
from .memory_demand import processes_at_once
from .outside import TimedOutside
from .replayed import CannotReplay, Replayed
from .self_timed import SelfTimed
from .timing import interleaved
from .timing.effort import USUAL, Effort
from .timing.interleaved import Part
from .timing.timekeeping import TimedProcess, TimekeeperDied
from .untrusted import UntrustedCandidate

T = TypeVar("T")

FROZEN = "+frozen"
"""Layer: it stands still while others are timed, and what it left is read from outside."""


async def profile(
    launcher: Launcher,
    timing: BaselineProcess,
    lease: Lease,
    problem: Problem,
    facts: ProblemFacts,
    hardware: HardwareFacts,
    source: str,
    compiled: CompileReport,
    *,
    seconds: float,
    thorough: bool,
    effort: Effort = USUAL,
    limits: tuple[str, ...] = (),
) -> ProfileReport:
    """Time a candidate at one shape. Its faults are verdicts.

    The baselines of that shape should be prepared, or that takes part of the time. Each of its processes has to stand
    all checks, and others may use the machine between them. ``effort``: how many, and until when.
    ``limits``: on which inputs alone it is right (:mod:`.limits`).

    Raises:
        ReferenceDied: the baselines cannot be kept alive.
        HarnessError: timekeeper or fork server cannot.
    """
    began = time.monotonic()
    plan = interleaved.THOROUGH if thorough else interleaved.QUICK
    layers = ""
    replayed = True
    waits: list[float] = []
    parts: list[Part] = []

    @contextlib.asynccontextmanager
    async def another(share: Share) -> AsyncIterator[UntrustedCandidate]:
        nonlocal layers
        worker = await started(launcher, compiled)
        layers = worker.isolation + (FROZEN if await timing.supply() else "")
        try:
            untrusted = UntrustedCandidate(worker, seconds, limits=limits, share=share)
            await load_into(untrusted, launcher, timing.timed.host, problem, source, compiled)
            yield untrusted
        finally:
            await asyncio.shield(worker.kill())

    def floor_now() -> Floor:
        now = measured_again(launcher.pool, hardware) if timing.on_processor else hardware
        return floor_of(facts, now, timing.copies)

    async def some_processes() -> list[tuple[Part, Counters | None]]:
        slow: list[Memoizes] = []
        while True:
            try:
                # Of one that was slow there is one more at a time.
                return await one_try(1 if slow else _at_once(timing, facts, hardware, plan, effort, len(parts)))
            except Memoizes as error:
                slow.append(error)
                fresh_data.judge(slow)

    async def one_try(count: int) -> list[tuple[Part, Counters | None]]:
        nonlocal replayed
        await timing.prepare(facts, lease)
        replayed = replayed and bool(timing.recordings)
        try:
            return await _in_processes(timing, lease, waits, another, floor, floor_now, plan, replayed, count)
        except CannotReplay:
            # It and the baselines are timed call by call, then.
            replayed = False
            parts.clear()
            return await one_try(count)

    def worked() -> float:
        return time.monotonic() - began - sum(waits)

    def result() -> Timing:
        return interleaved.result(parts, on_processor=timing.on_processor)

    floor = floor_of(facts, hardware, timing.copies)
    counters: Counters | None = None
    try:
        while not effort.is_enough(len(parts), plan.processes, worked(), result):
            try:
                measured = await some_processes()
            except (BaselinesDied, TimekeeperDied):
                # Once is somebody else's doing; a candidate that can kill them would do so again.
                measured = await timing.deaths.timed_again(some_processes)
            parts += [part for part, _ in measured]
            counters = measured[-1][1]
        timing.deaths.survived()
    except Judged as error:
        return ProfileReport(verdict=error.verdict, isolation=layers, evidence=error.evidence, seconds=worked())
    timed = result()
    return ProfileReport(
        verdict=Verdict.correct,
        isolation=layers,
        timing=timed,
        roofline=roofline(
            facts.work, hardware, timed.median_ms[interleaved.CANDIDATE], copies=timing.copies, dtype=facts.dtype
        ),
        counters=counters,
        seconds=worked(),
    )


def _at_once(
    timing: BaselineProcess,
    facts: ProblemFacts,
    hardware: HardwareFacts,
    plan: interleaved.Plan,
    effort: Effort,
    parts: int,
) -> int:
    """How many processes are prepared before the device is taken for all of them: others wait for it, too.

    On a processor one: each of its threads wants a core. And one where memory holds one, or time is up.
    """
    if timing.on_processor or timing.timed.host.large or effort.is_late:
        return 1
    room = min((processes_at_once(facts, device) for device in hardware.accelerators), default=1)
    return max(1, min(room, (effort.processes or plan.processes) - parts))


async def _in_processes(
    timing: BaselineProcess,
    lease: Lease,
    waits: list[float],
    another: Callable[[Share], AbstractAsyncContextManager[UntrustedCandidate]],
    floor: Floor,
    floor_now: Callable[[], Floor],
    plan: interleaved.Plan,
    replayed: bool,
    count: int,
) -> list[tuple[Part, Counters | None]]:
    """Time ``count`` fresh processes of the candidate one after the other, and judge them.

    Each is prepared as a sharer of its own, and stands still where somebody else waits. The lease is waited for twice
    more, whatever their number. ``waits`` gets the seconds in which others had it.

    Raises:
        CannotReplay: their calls were to be ``replayed``, and cannot be.
        Judged: something is wrong with one of them.
    """
    async with contextlib.AsyncExitStack() as held:

        async def prepared(waited: list[float]) -> TimedOutside | SelfTimed:
            own = await held.enter_async_context(contextlib.AsyncExitStack())
            async with counted(lease.shared(makes_way=True), waited) as share:
                try:
                    untrusted = await own.enter_async_context(another(share))
                    process = await _process(timing, untrusted, floor, floor_now, replayed)
                    own.push_async_callback(process.close)
                    await process.prepare()
                    untrusted.share = None
                finally:
                    waited.append(share.waited_s)
            return process

        waited: list[list[float]] = [[] for _ in range(count)]
        try:
            processes = await _all(map(prepared, waited))
        finally:
            # They waited at the same time.
            waits.append(max(map(sum, waited)))
        measured: list[tuple[Part, Counters | None]] = []
        try:
            async with counted(lease.exclusive(), waits):
                for process in processes:
                    with _alone(process, processes):
                        measured.append(await process.interleave(plan))
        except (Judged, HarnessError):
            # A wrong answer says more than what came of it.
            async with counted(lease.shared(), waits):
                for process in processes[: len(measured) + 1]:
                    await process.check_taken()
            raise
        # Not beside what somebody else times now.
        async with counted(lease.shared(), waits):
            await _all(_checked(process) for process in processes)
    return measured


async def _checked(process: TimedOutside | SelfTimed) -> None:
    await process.check_taken()
    await process.check_afterwards()


@contextlib.contextmanager
def _alone(process: TimedOutside | SelfTimed, processes: Sequence[TimedOutside | SelfTimed]) -> Iterator[None]:
    """The other processes of the candidate stand still, or one could slow what another is compared with."""
    others = [other.untrusted.worker for other in processes if other is not process]
    for worker in others:
        worker.stand_still()
    try:
        yield
    finally:
        for worker in others:
            worker.go_on()


async def _all(steps: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do all of them at once, each to its end; raises what the first of them raised that failed."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def _process(
    timing: BaselineProcess,
    untrusted: UntrustedCandidate,
    floor: Floor,
    floor_now: Callable[[], Floor],
    replayed: bool,
) -> TimedOutside | SelfTimed:
    if replayed:
        return Replayed(timing.timed, timing, untrusted, floor, floor_now, supply=await timing.recordings.supply())
    supply = await timing.supply()
    if supply is None:
        return SelfTimed(timing.timed, timing, untrusted, floor, floor_now)
    case = (await timing.timed.cases())[0]
    process = TimedProcess(timing.timekeeper, untrusted.worker, supply)
    return TimedOutside(timing.timed, timing, untrusted, floor, floor_now, case, supply, process)
