"""Rounds: one session each, with its faults, and what the audit finds."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec

from kernelswarm.bus import Bus
from kernelswarm.schemas import KernelswarmError, Schema, SessionClosed, SkillDistilled
from kernelswarm.store import Log, log_path

from .alone import killed_and_resumed
from .audit import Chain, audit
from .fleet import Fleet, open_fleet
from .injections import inject
from .leftover_processes import adopt, remaining
from .plans import ALONE, Injection, RoundPlan, plan_round

CLOSED_S = 300.0
"""A session that has not closed so long after its last fault is one that never will."""

SKILL_S = 60.0
LEFT_BEHIND_S = 60.0


class RoundResult(Schema, frozen=True, kw_only=True):
    """What came of one round."""

    number: int
    seed: int
    done: tuple[str, ...]
    """What was broken, in the order in which it was mended."""
    faults: tuple[str, ...]
    """What was found wrong, each with what was expected; empty if the round passed."""
    events: int
    """Events of its session."""
    seconds: float
    home: str = ""
    """Folder that was kept for you to look at; empty if the round passed."""


class _Watch:
    """The session as it goes on."""

    def __init__(self, bus: Bus, session: str) -> None:
        self._tail = bus.tail(session=session)
        self._changed = asyncio.Condition()
        self._ids: set[str] = set()
        self.closed: SessionClosed | None = None
        self.skill = False

    @property
    def events(self) -> int:
        return len(self._ids)

    async def run(self) -> None:
        async for _, envelope in self._tail:
            event = envelope.event()
            async with self._changed:
                self._ids.add(envelope.id)
                self.closed = event if isinstance(event, SessionClosed) else self.closed
                self.skill = self.skill or isinstance(event, SkillDistilled)
                self._changed.notify_all()

    async def until(self, happened: Callable[[], bool], limit_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s), self._changed:
                await self._changed.wait_for(happened)
        return happened()


async def run_round(fleet: Fleet, plan: RoundPlan, chain: Chain) -> RoundResult:
    """One round on ``fleet``; ``chain`` is how far its log was followed."""
    if plan.injections[0].kind == ALONE:
        return await _alone(fleet, plan)
    began = time.monotonic()
    away = any(injection.kind == "away" for injection in plan.injections)
    if away:
        await fleet.recorder.kill()
    watch = _Watch(fleet.bus, plan.session)
    watching = asyncio.create_task(watch.run())
    try:
        async with fleet.storing():
            await fleet.submit(plan)
            done = await asyncio.gather(*(_when(watch, fleet, plan, injection) for injection in plan.injections))
            faults = await _ended(fleet, plan, watch)
            if away:
                await fleet.recorder.start()
            faults += await audit(fleet.home, fleet.bus, plan.session, plan, chain)
        if fleet.submitter.status not in (0, -9):
            faults.append(f"the submitter ended with {fleet.submitter.status}: see {fleet.home / 'logs'}")
    except (KernelswarmError, TimeoutError) as error:
        done, faults = [], [f"{type(error).__name__}: {error}"]
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    faults += [f"process {left} is left behind" for left in await remaining(fleet.pids(), LEFT_BEHIND_S)]
    return RoundResult(
        number=plan.number,
        seed=plan.seed,
        done=tuple(done),
        faults=tuple(faults),
        events=watch.events,
        seconds=round(time.monotonic() - began, 2),
        home=str(fleet.home) if faults else "",
    )


async def _alone(fleet: Fleet, plan: RoundPlan) -> RoundResult:
    began = time.monotonic()
    home = fleet.home / plan.session
    shutil.copytree(fleet.home / "pools", home / "pools")
    try:
        faults, events = await killed_and_resumed(home, fleet.configure(plan), plan)
    except (KernelswarmError, TimeoutError) as error:
        faults, events = [f"{type(error).__name__}: {error}"], 0
    faults += [f"process {left} is left behind" for left in await remaining(fleet.pids(), LEFT_BEHIND_S)]
    return RoundResult(
        number=plan.number,
        seed=plan.seed,
        done=(f"{ALONE}: killed after {events} events, resumed",),
        faults=tuple(faults),
        events=events,
        seconds=round(time.monotonic() - began, 2),
        home=str(fleet.home) if faults else "",
    )


async def _when(watch: _Watch, fleet: Fleet, plan: RoundPlan, injection: Injection) -> str:
    if not await watch.until(lambda: watch.events >= injection.after or watch.closed is not None, CLOSED_S):
        return f"{injection.kind}: not reached"
    await asyncio.sleep(injection.delay_s)
    if injection.kind == "store" and fleet.disk.reason:
        return f"store: skipped, {fleet.disk.reason}"
    return f"{injection.kind}: {await inject(fleet, plan, injection)}"


async def _ended(fleet: Fleet, plan: RoundPlan, watch: _Watch) -> list[str]:
    if not fleet.submitter.alive and watch.events == 0:
        await fleet.submit(plan)  # it was killed before it had said anything: its user tries again
    if not await watch.until(lambda: watch.closed is not None, CLOSED_S):
        return [f"the session did not end within {CLOSED_S:.0f} s of its last fault, after {watch.events} events"]
    if watch.closed is not None and watch.closed.correct:
        await watch.until(lambda: watch.skill, SKILL_S)
    if fleet.submitter.alive:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SKILL_S):
                await fleet.submitter.wait()
    if fleet.submitter.alive:
        await fleet.submitter.kill()
        return ["the submitter did not notice that its session had closed"]
    return []


async def run_rounds(
    numbers: Sequence[int],
    seed: int,
    kinds: Sequence[str],
    folder: Path,
    on_result: Callable[[RoundResult], None] = lambda _: None,
) -> list[RoundResult]:
    """Run rounds ``numbers`` of ``seed``, one after the other on one fleet, as a fleet lives in practice.

    A fleet on which a round failed is ended, its home kept under ``folder``, and another one takes its place.

    Raises:
        KernelswarmError: a fleet cannot be set up.
    """
    results: list[RoundResult] = []
    adopt(True)
    try:
        while len(results) < len(numbers):
            home = Path(tempfile.mkdtemp(prefix=f"fleet-{numbers[len(results)]}-", dir=folder))
            for result in [
                outcome async for outcome in _one_fleet(home, seed, kinds, numbers[len(results) :], on_result)
            ]:
                results.append(result)
    finally:
        adopt(False)
    return results


async def _one_fleet(
    home: Path, seed: int, kinds: Sequence[str], numbers: Sequence[int], on_result: Callable[[RoundResult], None]
) -> AsyncIterator[RoundResult]:
    """Rounds until one fails; the last one also answers for the whole log."""
    chain = Chain()
    async with open_fleet(home) as fleet:
        for number in numbers:
            result = await run_round(fleet, plan_round(seed, number, kinds), chain)
            last = bool(result.faults) or number == numbers[-1]
            if last:
                await fleet.recorder.stop()
                result = _with(result, home, _whole(home, chain))
            on_result(result)
            yield result
            if last:
                break
        if result.faults:
            shutil.copytree(home / "nats", home / "nats.kept")  # its own file system ends with the fleet
    if not result.faults:
        shutil.rmtree(home)


def _whole(home: Path, chain: Chain) -> list[str]:
    with Log.open(log_path(home), read_only=True) as log:
        verification = log.verify()
    if not verification.ok:
        return [f"the log is damaged from event {verification.bad_seq}: {verification.reason}"]
    if not chain.faulty and (verification.events, verification.head) != (chain.seq, chain.head):
        return [f"the log ends at event {verification.events}, the rounds had followed it to {chain.seq}"]
    return []


def _with(result: RoundResult, home: Path, faults: list[str]) -> RoundResult:
    if not faults:
        return result
    return msgspec.structs.replace(result, faults=(*result.faults, *faults), home=str(home))
