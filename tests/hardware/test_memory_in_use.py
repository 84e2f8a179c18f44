"""What is in use lets others in where it was watched for a while: reservations are estimates on the safe side."""

import asyncio
from types import SimpleNamespace

import pytest
from waiting import LIMIT_S

from kernelswarm.hardware.machine import reservations
from kernelswarm.hardware.machine.reservations import MemoryReservations
from kernelswarm.schemas import Pool

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))
GIB = 1 << 30


@pytest.fixture
def watched(tmp_path, monkeypatch) -> SimpleNamespace:
    """Reservations of 8 GiB, of which as much is in use as ``used`` says; its clock is ``now``."""
    monkeypatch.setattr(reservations, "POLL_S", 0.001)
    monkeypatch.setattr(reservations, "PASSED_S", 1e9)
    state = SimpleNamespace(now=100.0, used=GIB, looks=0)
    monkeypatch.setattr(reservations, "time", SimpleNamespace(monotonic=lambda: state.now))

    def in_use() -> int | None:
        state.looks += 1
        return state.used

    async def passes(seconds: int, waiting: asyncio.Task) -> None:
        """Every second is looked once, as long as somebody waits."""
        for _ in range(seconds):
            state.now, before = state.now + 1.0, state.looks
            while state.looks == before and not waiting.done():  # noqa: ASYNC110 - it is asked from a thread
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.005)

    state.memory, state.passes = MemoryReservations(POOL, tmp_path, 8 * GIB, in_use=in_use), passes
    return state


async def test_what_is_in_use_counts_where_it_was_watched_and_what_came_since_counts_in_full(watched):
    memory = watched.memory
    first = await memory.reserve(6 * GIB, "first")
    # It waits to the end, and looks.
    everything = asyncio.create_task(memory.reserve(8 * GIB, "everything"))
    waiting = asyncio.create_task(memory.reserve(4 * GIB, "waits"))
    await watched.passes(25, waiting)
    assert not waiting.done(), "nobody has watched for long enough"
    await watched.passes(10, waiting)
    # 1.25 times what was in use at most, and 4 GiB.
    (await asyncio.wait_for(waiting, LIMIT_S)).release()
    young = await memory.reserve(2 * GIB, "young")
    another = asyncio.create_task(memory.reserve(5 * GIB, "another"))
    await watched.passes(10, everything)
    assert not another.done(), "what came since may not have begun"
    young.release()
    (await asyncio.wait_for(another, LIMIT_S)).release()
    watched.used = 4 * GIB
    await watched.passes(1, everything)
    watched.used = GIB
    another = asyncio.create_task(memory.reserve(4 * GIB, "another"))
    await watched.passes(20, everything)
    assert not another.done(), "so much was in use for a moment"
    await watched.passes(15, everything)
    (await asyncio.wait_for(another, LIMIT_S)).release()
    first.release()
    (await asyncio.wait_for(everything, LIMIT_S)).release()


@pytest.mark.parametrize(
    ("held", "used", "size"), [(6, 7, 4), (8, 1, 4), (6, 1, 8), (6, None, 4)], ids=["used", "alone", "all", "unknown"]
)
async def test_what_is_in_use_lets_nobody_in(watched, held, used, size):
    """Too much is in use; who is there has all of the memory; who waits wants all of it; nobody can tell."""
    memory, watched.used = watched.memory, None if used is None else used * GIB
    first = await memory.reserve(held * GIB, "first")
    waiting = asyncio.create_task(memory.reserve(size * GIB, "waits"))
    await watched.passes(90, waiting)
    assert not waiting.done()
    first.release()
    (await asyncio.wait_for(waiting, LIMIT_S)).release()


async def test_what_was_watched_long_ago_does_not_count(watched):
    memory = watched.memory
    first = await memory.reserve(6 * GIB, "first")
    for seconds in (25, 25):
        waiting = asyncio.create_task(memory.reserve(4 * GIB, "waits"))
        await watched.passes(seconds, waiting)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        watched.now += 60
    first.release()
