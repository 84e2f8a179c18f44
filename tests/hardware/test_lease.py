"""The lease: sharers together, timing alone, nobody starves, and it ends with the process."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from waiting import LIMIT_S

from kernelswarm.hardware.machine import lease as lease_module
from kernelswarm.hardware.machine.file_locks import Attempt
from kernelswarm.hardware.machine.lease import MOST_IN_A_ROW, Lease, lease_folder
from kernelswarm.hardware.machine.reservations import MemoryReservations
from kernelswarm.schemas import InputError, Pool

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))

HOLDER = """
import asyncio, sys
from pathlib import Path
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.schemas import Pool

async def main(home, mode):
    lease = Lease(Pool(name="other", platform="cpu", languages=("cpp",)), Path(home))
    print("asking", flush=True)
    async with getattr(lease, mode)():
        print("in", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    print("out", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


class Holder:
    """Another process that asks for the lease and holds it until it is told to go."""

    def __init__(self, process):
        self.process = process

    async def says(self) -> str:
        return (await self.process.stdout.readline()).decode().strip()

    async def leave(self) -> None:
        self.process.stdin.write(b"\n")
        await self.process.stdin.drain()
        assert await self.says() == "out"
        await self.process.wait()


@pytest.fixture
async def holder(tmp_path):
    async with contextlib.AsyncExitStack() as stack:

        async def start(mode: str, home: Path = tmp_path) -> Holder:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", HOLDER, str(home), mode, stdin=-1, stdout=-1
            )
            stack.push_async_callback(end, process)
            holder_process = Holder(process)
            assert await holder_process.says() == "asking"
            return holder_process

        async def end(process) -> None:
            if process.returncode is None:
                process.kill()
            await process.communicate()

        yield start


async def waits(task: asyncio.Task) -> bool:
    """Whether ``task`` is blocked: a few turns of the loop, with real locks probed in between, do not finish it."""
    for _ in range(20):
        await asyncio.to_thread(os.sched_yield)
    return not task.done()


async def hold(manager, entered: asyncio.Event, leave: asyncio.Event) -> None:
    async with manager:
        entered.set()
        await leave.wait()


def ask(manager) -> tuple[asyncio.Task, asyncio.Event, asyncio.Event]:
    entered, leave = asyncio.Event(), asyncio.Event()
    return asyncio.create_task(hold(manager, entered, leave)), entered, leave


async def test_sharers_of_two_processes_hold_it_together(tmp_path, holder):
    sharer = await holder("shared")
    assert await sharer.says() == "in"
    async with Lease(POOL, tmp_path).shared():
        await sharer.leave()


async def test_exclusive_waits_for_a_sharer_of_another_process(tmp_path, holder):
    sharer = await holder("shared")
    assert await sharer.says() == "in"
    task, entered, leave = ask(Lease(POOL, tmp_path).exclusive())
    assert await waits(task) and not entered.is_set()
    await sharer.leave()
    await entered.wait()
    leave.set()
    await task


async def test_nobody_comes_in_beside_an_exclusive_holder(tmp_path, holder):
    async with Lease(POOL, tmp_path).exclusive():
        sharer = await holder("shared")
        reply = asyncio.create_task(sharer.says())
        assert await waits(reply)
    assert await reply == "in"
    await sharer.leave()


async def test_two_devices_are_leased_apart_and_compiling_needs_neither(tmp_path):
    pool = Pool(name="h200", platform="nvidia", languages=("triton",))
    first, second = (Lease(pool, tmp_path, device) for device in ("GPU-1", "GPU-2"))
    async with first.exclusive(), second.exclusive(), first.compiling():
        waiter, entered, leave = ask(Lease(pool, tmp_path, "GPU-1").shared())
        assert await waits(waiter) and not entered.is_set()
    leave.set()
    await waiter


async def test_on_a_processor_compiling_waits_for_timing(tmp_path):
    lease = Lease(POOL, tmp_path)
    async with lease.exclusive():
        waiter, entered, leave = ask(lease.compiling())
        assert await waits(waiter) and not entered.is_set()
    leave.set()
    await waiter


async def test_a_killed_holder_lets_the_next_one_in(tmp_path, holder):
    exclusive_holder = await holder("exclusive")
    assert await exclusive_holder.says() == "in"
    task, entered, leave = ask(Lease(POOL, tmp_path).shared())
    assert await waits(task)
    exclusive_holder.process.send_signal(signal.SIGKILL)
    await entered.wait()
    leave.set()
    await task


async def test_who_waits_for_another_process_hears_once_that_there_is_one(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(lease_module, "PATIENCE_S", 0.01)
    lease, told, sentences = Lease(POOL, tmp_path), asyncio.Event(), []
    lease.on_others = lambda sentence: (sentences.append(sentence), told.set())
    async with lease.shared():  # who holds it here is no other
        task, entered, leave = ask(lease.exclusive())
        assert await waits(task) and not sentences
    await entered.wait()
    leave.set()
    await task
    for mode in ("shared", "exclusive"):
        other = await holder("exclusive")
        assert await other.says() == "in"
        task, entered, leave = ask(getattr(lease, mode)())
        await asyncio.wait_for(told.wait(), LIMIT_S)
        await other.leave()
        await entered.wait()
        leave.set()
        await task
    assert sentences == [lease_module.OTHERS]


async def test_a_lease_that_goes_from_one_holder_here_to_the_next_is_no_other_session_s(tmp_path, monkeypatch):
    block = Attempt._block

    def slow(attempt):
        """It has the lease; on a busy processor it takes a while to say so."""
        error = block(attempt)
        time.sleep(lease_module.PATIENCE_S)
        return error

    monkeypatch.setattr(Attempt, "_block", slow)
    lease, sentences = Lease(POOL, tmp_path), []
    lease.on_others = sentences.append
    async with lease.shared():
        task, entered, leave = ask(lease.exclusive())
        await asyncio.sleep(lease_module.PATIENCE_S / 2)
    await entered.wait()
    leave.set()
    await task
    assert not sentences


async def test_a_stream_of_sharers_does_not_starve_an_exclusive_waiter(tmp_path, holder):
    lease = Lease(POOL, tmp_path)
    first, first_in, first_leave = ask(lease.shared())
    await first_in.wait()
    timing = await holder("exclusive")
    reply = asyncio.create_task(timing.says())
    assert await waits(reply)
    # The first one is still in the room, so by the room alone the second could enter at once. Once the waiter stands
    # in the turnstile it may not; until then sharers come and go.
    async with asyncio.timeout(LIMIT_S):
        while True:
            second, second_in, second_leave = ask(lease.shared())
            if await waits(second) and not second_in.is_set():
                break
            second_leave.set()
            await second
    first_leave.set()
    await first
    assert await reply == "in" and not second_in.is_set()
    await timing.leave()
    await second_in.wait()
    second_leave.set()
    await second


async def test_a_cancelled_waiter_stands_in_nobodys_way(tmp_path):
    lease = Lease(POOL, tmp_path)
    async with lease.shared():
        waiter, entered, _ = ask(lease.exclusive())
        assert await waits(waiter)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert not entered.is_set()
        async with lease.shared():
            pass
    async with lease.exclusive():
        pass


async def test_a_cancelled_holder_gives_it_back(tmp_path):
    lease = Lease(POOL, tmp_path)
    task, entered, _ = ask(lease.exclusive())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with lease.exclusive():
        pass


async def test_exclusive_holders_are_alone_and_no_descriptor_is_left(tmp_path):
    lease, inside = Lease(POOL, tmp_path), []

    async def once() -> None:
        async with lease.exclusive():
            inside.append(1)
            assert len(inside) == 1
            await asyncio.sleep(0)
            inside.pop()

    def locks() -> int:
        links = list(Path("/proc/self/fd").iterdir())
        return sum(os.path.realpath(link).startswith(str(tmp_path)) for link in links)

    await asyncio.gather(*(once() for _ in range(30)))
    assert locks() == 0


async def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(InputError, match="KERNELSWARM_HOME"):
        async with Lease(POOL, tmp_path / "home").shared():
            pass


async def test_homes_of_one_user_have_one_lease_and_one_memory(tmp_path, holder, monkeypatch):
    """Two processes, each with a home of its own; of another user, or with a folder of its own, there is another."""
    monkeypatch.delenv("KERNELSWARM_LEASES")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    first = await holder("exclusive", tmp_path / "first")
    assert await first.says() == "in"
    second = await holder("exclusive", tmp_path / "second")
    reply = asyncio.create_task(second.says())
    assert await waits(reply)
    monkeypatch.setenv("KERNELSWARM_LEASES", "own")
    async with Lease(POOL, tmp_path / "third").exclusive():
        assert (tmp_path / "third" / "own").is_dir() and not reply.done()
    monkeypatch.delenv("KERNELSWARM_LEASES")
    memory, another = (MemoryReservations(POOL, tmp_path / home, 1 << 30) for home in ("first", "second"))
    held = await memory.reserve(1 << 20, "mine")
    assert [holding.label for holding in another.holdings()] == ["mine"]
    held.release()
    await first.leave()
    assert await reply == "in"
    await second.leave()


def test_without_a_user_data_folder_each_home_has_its_own(tmp_path, monkeypatch):
    monkeypatch.delenv("KERNELSWARM_LEASES")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    assert lease_folder(tmp_path / "home") == tmp_path / "home" / "leases"


async def test_the_exclusive_lease_is_handed_on_within_a_process(tmp_path, holder):
    """Before whoever of another process waits in between: that one shares it with all who wait, afterwards."""
    lease = Lease(POOL, tmp_path)
    first, _, leave_first = ask(lease.exclusive())
    await waits(first)
    sharer = await holder("shared")
    reply = asyncio.create_task(sharer.says())
    assert await waits(reply)
    second, in_second, leave_second = ask(lease.exclusive())
    assert await waits(second)
    leave_first.set()
    await in_second.wait()
    assert await waits(reply)
    leave_second.set()
    assert await reply == "in"
    await sharer.leave()
    await asyncio.gather(first, second)


async def test_it_is_handed_on_a_few_times_only(tmp_path, holder):
    lease = Lease(POOL, tmp_path)
    requests = [ask(lease.exclusive()) for _ in range(MOST_IN_A_ROW + 1)]
    await requests[0][1].wait()
    sharer = await holder("shared")
    reply = asyncio.create_task(sharer.says())
    assert await waits(reply)
    for _, entered, leave in requests[:-1]:
        await asyncio.wait_for(entered.wait(), LIMIT_S)
        leave.set()
    assert await reply == "in"
    last, entered, leave = requests[-1]
    assert await waits(last) and not entered.is_set()
    await sharer.leave()
    await entered.wait()
    leave.set()
    await asyncio.gather(*(task for task, _, _ in requests))


async def test_a_cancelled_heir_and_a_cancelled_asker_hold_up_nobody(tmp_path, holder):
    sharer = await holder("shared")
    assert await sharer.says() == "in"
    lease = Lease(POOL, tmp_path)
    asker, _, _ = ask(lease.exclusive())
    heir, _, _ = ask(lease.exclusive())
    last, entered, leave = ask(lease.exclusive())
    assert await waits(asker) and await waits(last)
    for task in (heir, asker):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await sharer.leave()
    await asyncio.wait_for(entered.wait(), LIMIT_S)
    leave.set()
    await last


async def test_an_heir_cancelled_as_its_turn_comes_hands_it_on(tmp_path):
    lease = Lease(POOL, tmp_path)
    async with contextlib.AsyncExitStack() as first:
        await first.enter_async_context(lease.exclusive())
        heir, in_heir, _ = ask(lease.exclusive())
        last, entered, leave = ask(lease.exclusive())
        assert await waits(last)
    # The heir has its turn, and has not run yet.
    heir.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await heir
    await asyncio.wait_for(entered.wait(), LIMIT_S)
    assert not in_heir.is_set()
    leave.set()
    await last
