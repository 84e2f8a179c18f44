"""What runs out of an accelerator's memory is done once more with all of it; then neighbours have the rest again."""

import asyncio

import pytest
from waiting import LIMIT_S

from kernelswarm.hardware.harness import memory_demand, peak_use
from kernelswarm.hardware.harness.peak_use import PeakUse, in_use_of
from kernelswarm.hardware.harness.problem_memory import ProblemMemory
from kernelswarm.hardware.machine import nvml
from kernelswarm.hardware.machine.reservations import MemoryReservations
from kernelswarm.schemas import (
    Accelerator,
    InputFact,
    Pool,
    PoolError,
    Problem,
    ProblemFacts,
    ProblemFormat,
    ShapeFacts,
    Work,
)

GIB = 1 << 30
POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))
GPU = Accelerator(index=0, name="GPU", uuid="u", target="sm_90", memory_bytes=80 * GIB)
CAPACITY = 80 * GIB
X = InputFact(name="x", kind="tensor", shape=(1 << 18,), dtype="float32")
WORK = Work(read_bytes=1 << 20, write_bytes=1 << 20, flops=0)
MAIN = ShapeFacts(name="main", inputs=(X,), outputs=(X,), work=WORK)
FACTS = ProblemFacts(signature=("x",), shapes=(MAIN,), graph=None, work=WORK, dtype="float32", float64_oracle=True)
ESTIMATE = memory_demand.demand_of(FACTS, GPU)
SHORT = "CUDA out of memory"


def problem(name: str) -> Problem:
    return Problem(name=name, format=ProblemFormat.function, source=name, sha256=name)


A = problem("a")


def memory_of(home, accelerator: Accelerator | None = GPU, in_use: int | None = None) -> ProblemMemory:
    async def forget(key: str) -> None:
        memory.release(key)

    memory = ProblemMemory(MemoryReservations(POOL, home, CAPACITY), accelerator, forget, in_use=lambda: in_use)
    return memory


def held(memory: ProblemMemory) -> list[int]:
    return [holding.size for holding in memory.reservations.holdings()]


class Steps:
    """Attempts that come to ``results``, one after the other, and note what was reserved meanwhile."""

    def __init__(self, memory: ProblemMemory, *results: str) -> None:
        self.reserved: list[list[int]] = []
        self._memory, self._results = memory, list(results)

    async def attempt(self) -> str:
        self.reserved.append(held(self._memory))
        return self._results.pop(0)


async def test_what_ran_out_of_memory_beside_neighbours_is_done_once_more_alone(tmp_path):
    memory, notices = memory_of(tmp_path), []
    neighbour = await memory.reservations.reserve(CAPACITY // 2, "neighbour")
    memory.notify(A, lambda text: (notices.append(text), text and neighbour.release()))
    steps = Steps(memory, SHORT, "fine", SHORT, SHORT)
    async with memory.using(A, FACTS):
        assert await asyncio.wait_for(memory.unless_short(A, steps.attempt, str), LIMIT_S) == "fine"
        assert sorted(steps.reserved[0]) == [ESTIMATE, CAPACITY // 2] and steps.reserved[1] == [CAPACITY]
        assert "neighbour" in notices[0]
        assert await memory.unless_short(A, steps.attempt, str) == SHORT, "once is enough"
    await memory.close()


async def test_the_problems_own_processes_make_room_for_what_is_done_once_more(tmp_path):
    memory, made = memory_of(tmp_path), []

    async def make_room(key: str) -> None:
        made.append((key, list(steps.reserved)))

    steps = Steps(memory, "fine", SHORT, "fine")
    async with memory.using(A, FACTS):
        await memory.unless_short(A, steps.attempt, str, make_room)
        assert not made
        assert await memory.unless_short(A, steps.attempt, str, make_room) == "fine"
    assert made == [("a", [[ESTIMATE], [ESTIMATE]])]
    await memory.close()


@pytest.mark.parametrize(
    ("peak", "demand"),
    [(20 * GIB, 25 * GIB), (None, 2 * ESTIMATE), (GIB, int(1.25 * ESTIMATE)), (79 * GIB, CAPACITY)],
    ids=["seen", "not seen", "less than estimated", "all of it"],
)
async def test_after_a_shortage_a_problem_keeps_what_it_was_seen_to_need(tmp_path, peak, demand):
    memory = memory_of(tmp_path, in_use=peak)
    steps = Steps(memory, SHORT, "fine", "fine")
    async with memory.using(A, FACTS):
        await memory.unless_short(A, steps.attempt, str)
        assert held(memory) == [demand]
        await memory.unless_short(A, steps.attempt, str)
    assert steps.reserved == [[ESTIMATE], [CAPACITY], [demand]]
    memory.release("a")
    async with memory.using(A, FACTS):
        assert held(memory) == [demand], "its later steps reserve as much"
    await memory.close()


async def test_a_step_that_all_of_the_memory_is_too_little_for_says_nothing_of_the_others(tmp_path):
    memory = memory_of(tmp_path, in_use=79 * GIB)
    steps = Steps(memory, SHORT, SHORT)
    async with memory.using(A, FACTS):
        assert await memory.unless_short(A, steps.attempt, str) == SHORT
        assert steps.reserved == [[ESTIMATE], [CAPACITY]] and held(memory) == [ESTIMATE]
    await memory.close()


async def test_what_held_nothing_before_holds_nothing_afterwards(tmp_path):
    memory = memory_of(tmp_path)
    steps = Steps(memory, SHORT, SHORT)
    async with memory.using(A, None):
        await memory.unless_short(A, steps.attempt, str)
    assert steps.reserved == [[], [CAPACITY]] and held(memory) == []
    await memory.close()


async def test_steps_of_one_problem_that_were_too_many_are_done_again_one_by_one_with_all_of_it(tmp_path):
    memory = memory_of(tmp_path, in_use=20 * GIB)
    together, running, again = asyncio.Barrier(3), [0], []

    def step():
        first = [True]

        async def attempt() -> str:
            if first and first.pop():
                await asyncio.wait_for(together.wait(), LIMIT_S)
                return SHORT
            running[0] += 1
            await asyncio.sleep(0.02)
            again.append((running[0], held(memory)))
            running[0] -= 1
            return "fine"

        return memory.unless_short(A, attempt, str)

    async with memory.using(A, FACTS):
        assert set(await asyncio.gather(step(), step(), step())) == {"fine"}
        assert again == 3 * [(1, [CAPACITY])] and held(memory) == [25 * GIB]
    await memory.close()


async def test_main_memory_is_not_waited_for_by_what_ran_out_of_it(tmp_path):
    memory = memory_of(tmp_path, None)
    steps = Steps(memory, "MemoryError")
    async with memory.using(A, FACTS):
        assert await memory.unless_short(A, steps.attempt, str) == "MemoryError"
    await memory.close()


async def test_others_never_see_less_than_is_held_while_a_reservation_shrinks(tmp_path, monkeypatch):
    memory = memory_of(tmp_path).reservations
    large, seen = await memory.reserve(60 * GIB, "a"), []
    monkeypatch.setattr(large, "release", lambda release=large.release: (seen.extend(memory.holdings()), release()))
    small = memory.shrunk(large, 20 * GIB, "a")
    assert [holding.size for holding in memory.holdings()] == [small.size] == [20 * GIB]
    assert sorted(holding.size for holding in seen) == [20 * GIB, 60 * GIB]
    small.release()


async def test_the_peak_is_the_most_that_was_seen(monkeypatch):
    monkeypatch.setattr(peak_use, "EVERY_S", 0.001)
    sizes, looked = [3, 9, None, 4], asyncio.Event()
    loop = asyncio.get_running_loop()

    def now() -> int | None:
        if len(sizes) == 1:
            loop.call_soon_threadsafe(looked.set)
            return sizes[0]
        return sizes.pop(0)

    peak = PeakUse(now)
    async with peak.observing():
        await asyncio.wait_for(looked.wait(), LIMIT_S)
    assert peak.size == 9


def test_what_is_in_use_is_unknown_where_the_driver_does_not_say(monkeypatch):
    monkeypatch.setattr(nvml, "read_used_bytes", lambda uuid: {"u": GIB}[uuid])
    assert in_use_of(GPU) == GIB

    def refuse(uuid: str) -> int:
        raise PoolError("no driver")

    monkeypatch.setattr(nvml, "read_used_bytes", refuse)
    assert in_use_of(GPU) is None
