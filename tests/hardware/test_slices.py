"""Work in slices: it stands still while somebody else has the machine, and only its own time counts."""

import asyncio
import contextlib
import itertools
import signal
import time
from types import SimpleNamespace

import pytest
from waiting import LIMIT_S, eventually

from kernelswarm.hardware.harness.judgement import Judged
from kernelswarm.hardware.harness.untrusted import UntrustedCandidate
from kernelswarm.hardware.machine.file_locks import is_locked
from kernelswarm.hardware.machine.lease import DRAIN_SECONDS, Lease
from kernelswarm.hardware.machine.slices import in_slices, make_way
from kernelswarm.hardware.processes.messages import Done
from kernelswarm.hardware.processes.time_limit import time_limit
from kernelswarm.schemas import Pool

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))
GPUS = Pool(name="gpus", platform="nvidia", languages=("triton",))


async def test_it_stands_still_while_somebody_times_something(tmp_path):
    lease, sent, done, running = Lease(GPUS, tmp_path), [], asyncio.Event(), asyncio.Event()

    async def work() -> str:
        running.set()
        await done.wait()
        return "built"

    task = asyncio.create_task(in_slices(work, lease, sent.append, limit_s=LIMIT_S))
    await asyncio.wait_for(running.wait(), LIMIT_S)
    asked = time.monotonic()
    async with asyncio.timeout(LIMIT_S), lease.exclusive():
        assert sent == [signal.SIGSTOP] and not task.done()
        assert time.monotonic() - asked >= DRAIN_SECONDS, "what it had launched was still running"
    done.set()
    assert await asyncio.wait_for(task, LIMIT_S) == "built"
    assert sent == [signal.SIGSTOP, signal.SIGCONT]


async def test_who_had_answered_when_it_was_stopped_goes_on(tmp_path):
    """It was left standing still: what it was asked next was never answered, and the session waited to its end."""
    lease, sent, done, running = Lease(POOL, tmp_path), [], asyncio.Event(), asyncio.Event()

    async def work() -> str:
        running.set()
        await done.wait()
        return "loaded"

    def send(number: signal.Signals) -> None:
        sent.append(number)
        done.set()

    task = asyncio.create_task(in_slices(work, lease, send, limit_s=LIMIT_S))
    await asyncio.wait_for(running.wait(), LIMIT_S)
    async with asyncio.timeout(LIMIT_S), lease.exclusive():
        pass
    assert await asyncio.wait_for(task, LIMIT_S) == "loaded"
    assert sent == [signal.SIGSTOP, signal.SIGCONT]


async def test_a_sharer_makes_way_for_who_waits_and_for_nobody_else(tmp_path):
    lease, sent, held = Lease(POOL, tmp_path), [], asyncio.Event()

    async def time_something() -> None:
        async with lease.exclusive():
            assert sent == [signal.SIGSTOP]
            held.set()

    async with asyncio.timeout(LIMIT_S), lease.shared(makes_way=True) as share:
        await make_way(share, sent.append)
        assert not sent and share.waited_s == 0
        waiter = asyncio.create_task(time_something())
        assert await eventually(lambda: asyncio.to_thread(lease.is_wanted), True)
        assert not held.is_set()
        await make_way(share, sent.append)
        assert held.is_set() and sent == [signal.SIGSTOP, signal.SIGCONT] and share.waited_s > 0
        await waiter
        second = asyncio.create_task(time_something())
        assert await eventually(lambda: asyncio.to_thread(lease.is_wanted), True)
        assert not second.done(), "it shares the machine again"
        second.cancel()


async def waiter(lease: Lease, entered: asyncio.Event, leave: asyncio.Event) -> None:
    async with lease.exclusive():
        entered.set()
        await leave.wait()


async def test_nobody_makes_way_beside_what_cannot_stand_still(tmp_path):
    lease, entered, leave = Lease(POOL, tmp_path), asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(LIMIT_S), lease.shared(makes_way=True) as share:
        with lease.steady():
            task = asyncio.create_task(waiter(lease, entered, leave))
            assert await eventually(lambda: asyncio.to_thread(is_locked, lease._turnstile), True)
            await share.make_way()
            assert share.is_held and share.waited_s == 0 and not entered.is_set()
        way = asyncio.create_task(share.make_way())
        await entered.wait()
        assert not share.is_held
        leave.set()
        await way
        assert share.is_held and share.waited_s > 0
        await task


async def test_who_makes_way_stays_where_something_began_meanwhile_that_cannot_stand_still(tmp_path):
    lease, entered, leave = Lease(POOL, tmp_path), asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(LIMIT_S), lease.shared(makes_way=True) as share:
        task = asyncio.create_task(waiter(lease, entered, leave))
        assert await eventually(lambda: asyncio.to_thread(lease.is_wanted), True)
        way = asyncio.create_task(share.make_way(drain_s=0.05))
        await asyncio.sleep(0)
        with lease.steady():
            await way
            assert share.is_held and not entered.is_set()
    leave.set()
    await task


async def test_it_gets_on_where_somebody_always_waits(tmp_path):
    """It was stopped again at once: in twelve seconds beside three who time it did nothing."""
    lease, sent = Lease(GPUS, tmp_path), []

    async def always() -> None:
        while True:
            async with lease.exclusive():
                await asyncio.sleep(0.02)

    async def work() -> None:
        await asyncio.Event().wait()

    timers = [asyncio.create_task(always()) for _ in range(3)]
    task = asyncio.create_task(
        in_slices(work, lease, lambda number: sent.append((number, time.monotonic())), limit_s=LIMIT_S)
    )
    assert await eventually(lambda: asyncio.sleep(0, len(sent) >= 5), True)
    for each in (*timers, task):
        each.cancel()
    await asyncio.gather(*timers, task, return_exceptions=True)
    slices = [stop - go for (_, go), (_, stop) in itertools.pairwise(sent[1:5])][::2]
    assert [number for number, _ in sent[:5]] == [signal.SIGSTOP, signal.SIGCONT] * 2 + [signal.SIGSTOP]
    assert min(slices) >= DRAIN_SECONDS


async def test_it_does_not_begin_before_it_may(tmp_path):
    lease, began = Lease(POOL, tmp_path), asyncio.Event()

    async def work() -> None:
        began.set()

    async with lease.exclusive():
        task = asyncio.create_task(in_slices(work, lease, lambda number: None, limit_s=LIMIT_S))
        await asyncio.sleep(0.05)
        assert not began.is_set()
    await asyncio.wait_for(task, LIMIT_S)
    assert began.is_set()


async def test_waiting_does_not_count_and_working_too_long_ends_it(tmp_path):
    lease, began = Lease(POOL, tmp_path), time.monotonic()

    async def work() -> None:
        await asyncio.Event().wait()

    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(lease.exclusive())
        task = asyncio.create_task(in_slices(work, lease, lambda number: None, limit_s=0.2))
        await asyncio.sleep(0.4)
        assert not task.done()
        await stack.aclose()
        with pytest.raises(TimeoutError, match=r"not done after 0\.2 s"):
            await asyncio.wait_for(task, LIMIT_S)
    assert time.monotonic() - began > 0.5


async def test_a_candidate_that_is_asked_stands_still_for_who_waits_and_that_is_none_of_its_time(tmp_path):
    lease, sent, done, running = Lease(POOL, tmp_path), [], asyncio.Event(), asyncio.Event()

    async def ask(command, kind, descriptors, *, seconds, stood):
        running.set()
        async with time_limit(seconds, lambda: 0.0, stood):
            await done.wait()
        return Done(), []

    worker = SimpleNamespace(ask=ask, send=sent.append, pid=0, output="")
    async with asyncio.timeout(LIMIT_S), lease.shared(makes_way=True) as share:
        untrusted = UntrustedCandidate(worker, seconds=0.5, share=share)
        answer = asyncio.create_task(untrusted.ask(Done(), Done))
        await running.wait()
        async with lease.exclusive():
            assert sent == [signal.SIGSTOP] and not answer.done()
            await asyncio.sleep(0.7)
        done.set()
        assert await answer == (Done(), []) and sent == [signal.SIGSTOP, signal.SIGCONT]
        assert untrusted._left > 0.2
        done.clear()
        with pytest.raises(Judged, match=r"0\.5 s"):
            await untrusted.ask(Done(), Done)
