"""How fast is it, against what? The supervisor's side of timing one candidate."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

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
from ..machine.lease import Lease, counted
from ..machine.peaks import measured_again
from ..machine.roofline import roofline
from . import fresh_data
from .baseline_process import BaselineProcess
from .deaths import BaselinesDied
from .fresh_data import Memoizes
from .judgement import Judged
from .launcher import Launcher
from .loading import load_into, started
from .outside import TimedOutside
from .replayed import CannotReplay, Replayed
from .self_timed import SelfTimed
from .timing import interleaved
from .timing.effort import USUAL, Effort
from .timing.interleaved import Part
from .timing.timekeeping import TimedProcess, TimekeeperDied
from .untrusted import UntrustedCandidate

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
    async def another() -> AsyncIterator[UntrustedCandidate]:
        nonlocal layers
        worker = await started(launcher, compiled)
        layers = worker.isolation + (FROZEN if await timing.supply() else "")
        try:
            untrusted = UntrustedCandidate(worker, seconds, limits=limits)
            await load_into(untrusted, launcher, timing.timed.host, problem, source, compiled)
            yield untrusted
        finally:
            await asyncio.shield(worker.kill())

    def floor_now() -> Floor:
        now = measured_again(launcher.pool, hardware) if timing.on_processor else hardware
        return floor_of(facts, now, timing.copies)

    async def one_process() -> tuple[Part, Counters | None]:
        slow: list[Memoizes] = []
        while True:
            try:
                return await one_try()
            except Memoizes as error:
                slow.append(error)
                fresh_data.judge(slow)

    async def one_try() -> tuple[Part, Counters | None]:
        nonlocal replayed
        await timing.prepare(facts, lease)
        replayed = replayed and timing.is_recorded
        try:
            return await _in_one_process(timing, lease, waits, another, floor, floor_now, plan, replayed)
        except CannotReplay:
            # It and the baselines are timed call by call, then.
            replayed = False
            parts.clear()
            return await one_try()

    def worked() -> float:
        return time.monotonic() - began - sum(waits)

    def result() -> Timing:
        return interleaved.result(parts, on_processor=timing.on_processor)

    floor = floor_of(facts, hardware, timing.copies)
    counters: Counters | None = None
    try:
        while not effort.is_enough(len(parts), plan.processes, worked(), result):
            try:
                part, counters = await one_process()
            except (BaselinesDied, TimekeeperDied):
                # Once is somebody else's doing; a candidate that can kill them would do so again.
                part, counters = await timing.deaths.timed_again(one_process)
            parts.append(part)
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


async def _in_one_process(
    timing: BaselineProcess,
    lease: Lease,
    waits: list[float],
    another: Callable[[], AbstractAsyncContextManager[UntrustedCandidate]],
    floor: Floor,
    floor_now: Callable[[], Floor],
    plan: interleaved.Plan,
    replayed: bool,
) -> tuple[Part, Counters | None]:
    """Time a fresh process of the candidate, and judge it; ``waits`` gets the seconds in which others had the lease.

    Raises:
        CannotReplay: its calls were to be ``replayed``, and cannot be.
        Judged: something is wrong with it.
    """
    async with contextlib.AsyncExitStack() as held:
        async with counted(lease.shared(), waits):
            untrusted = await held.enter_async_context(another())
            process = await _process(timing, untrusted, floor, floor_now, replayed)
            held.push_async_callback(process.close)
            await process.prepare()
        try:
            async with counted(lease.exclusive(), waits):
                measurement = await process.interleave(plan)
        except (Judged, HarnessError):
            # A wrong answer says more than what came of it.
            async with counted(lease.shared(), waits):
                await process.check_taken()
            raise
        # Not beside what somebody else times now.
        async with counted(lease.shared(), waits):
            await process.check_taken()
            await process.check_afterwards()
    return measurement


async def _process(
    timing: BaselineProcess,
    untrusted: UntrustedCandidate,
    floor: Floor,
    floor_now: Callable[[], Floor],
    replayed: bool,
) -> TimedOutside | SelfTimed:
    if replayed:
        return Replayed(timing.timed, timing, untrusted, floor, floor_now, supply=await timing.recorded_supply())
    supply = await timing.supply()
    if supply is None:
        return SelfTimed(timing.timed, timing, untrusted, floor, floor_now)
    case = (await timing.timed.cases())[0]
    process = TimedProcess(timing.timekeeper, untrusted.worker, supply)
    return TimedOutside(timing.timed, timing, untrusted, floor, floor_now, case, supply, process)
