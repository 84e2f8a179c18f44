"""Memory that sessions of several processes reserve: what does not fit waits, and a killed holder holds nothing."""

import asyncio
import contextlib
import signal
import sys
from types import SimpleNamespace

import pytest
from msgspec import structs
from waiting import LIMIT_S

from kernelswarm.hardware.harness import memory_demand, problem_memory
from kernelswarm.hardware.harness.inputs.graph_sizes import largest_live_bytes
from kernelswarm.hardware.harness.problem_memory import ProblemMemory
from kernelswarm.hardware.machine import reservations
from kernelswarm.hardware.machine.reservations import MemoryReservations
from kernelswarm.schemas import (
    Accelerator,
    Graph,
    InputError,
    InputFact,
    Node,
    Pool,
    Problem,
    ProblemFacts,
    ProblemFormat,
    Ref,
    ShapeFacts,
    TensorMeta,
    Work,
)

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))
GIB = 1 << 30

HOLDER = """
import asyncio, sys
from pathlib import Path
from kernelswarm.hardware.machine import reservations
from kernelswarm.hardware.machine.reservations import MemoryReservations
from kernelswarm.schemas import Pool

async def main(home, size, passed_s):
    reservations.PASSED_S = float(passed_s)
    memory = MemoryReservations(Pool(name="other", platform="cpu", languages=("cpp",)), Path(home), 8 << 30)
    print("asking", flush=True)
    held = await memory.reserve(int(size), "neighbour", lambda text: print("waits" if text else "goes on", flush=True))
    print("in", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    held.release()
    print("out", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def neighbour(tmp_path):
    async with contextlib.AsyncExitStack() as stack:

        async def start(size: int, passed_s: float = LIMIT_S) -> asyncio.subprocess.Process:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", HOLDER, str(tmp_path), str(size), str(passed_s), stdin=-1, stdout=-1
            )
            stack.push_async_callback(end, process)
            assert await says(process) == "asking"
            return process

        async def end(process) -> None:
            if process.returncode is None:
                process.kill()
            await process.communicate()

        yield start


async def says(process) -> str:
    return (await asyncio.wait_for(process.stdout.readline(), LIMIT_S)).decode().strip()


def memory_of(home) -> MemoryReservations:
    return MemoryReservations(POOL, home, 8 * GIB)


async def test_what_fits_is_held_together_and_what_does_not_waits_for_its_neighbour(tmp_path, neighbour):
    memory, notices = memory_of(tmp_path), []
    process = await neighbour(5 * GIB)
    assert await says(process) == "in"
    small = await asyncio.wait_for(memory.reserve(3 * GIB, "small"), LIMIT_S)
    waiting = asyncio.Event()
    large = asyncio.create_task(memory.reserve(4 * GIB, "large", lambda text: (notices.append(text), waiting.set())))
    await asyncio.wait_for(waiting.wait(), LIMIT_S)
    assert memory.is_wanted() and not large.done()
    assert notices[0].startswith("waiting for 4.0 GiB of the 8.0 GiB of memory that pool cpu has: held by ")
    assert "neighbour (5.0 GiB)" in notices[0] and "small (3.0 GiB)" in notices[0]
    process.stdin.write(b"\n")
    assert await says(process) == "out"
    (await asyncio.wait_for(large, LIMIT_S)).release()
    assert notices[1:] == [""] and not memory.is_wanted()
    small.release()
    assert memory.holdings() == []


async def test_a_killed_holder_holds_nothing(tmp_path, neighbour):
    process = await neighbour(8 * GIB)
    assert await says(process) == "in"
    memory = memory_of(tmp_path)
    assert [holding.size for holding in memory.holdings()] == [8 * GIB]
    waiting = asyncio.create_task(memory.reserve(1, "next"))
    process.send_signal(signal.SIGKILL)
    (await asyncio.wait_for(waiting, LIMIT_S)).release()
    assert memory.holdings() == [] and not list((tmp_path / "leases").rglob("*.held"))


async def test_what_fits_passes_what_waits_for_more_than_there_is(tmp_path, neighbour):
    memory = memory_of(tmp_path)
    first = await memory.reserve(2 * GIB, "first")
    large = await neighbour(7 * GIB)
    assert await says(large) == "waits"
    small = await asyncio.wait_for(memory.reserve(GIB, "small"), LIMIT_S)
    assert memory.is_wanted(), "by the large one"
    first.release()
    assert await says(large) == "goes on"
    small.release()


async def test_what_has_waited_for_long_is_not_starved_by_what_would_fit(tmp_path, neighbour):
    memory = memory_of(tmp_path)
    first = await memory.reserve(2 * GIB, "first")
    large = await neighbour(7 * GIB, passed_s=0.0)
    assert await says(large) == "waits"
    small = asyncio.create_task(memory.reserve(GIB, "small"))
    first.release()
    assert [await says(large), await says(large)] == ["goes on", "in"]
    assert (await asyncio.wait_for(small, LIMIT_S)).size == GIB
    small.result().release()


async def test_what_waits_is_passed_for_a_while_only(tmp_path, monkeypatch):
    now, memory, waiting = [100.0], memory_of(tmp_path), asyncio.Event()
    monkeypatch.setattr(reservations, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(reservations, "POLL_S", 0.01)
    first = await memory.reserve(2 * GIB, "first")
    large = asyncio.create_task(memory.reserve(7 * GIB, "large", lambda _: waiting.set()))
    await asyncio.wait_for(waiting.wait(), LIMIT_S)
    now[0] += reservations.PASSED_S - 1
    await asyncio.sleep(0.05)
    (await asyncio.wait_for(memory.reserve(GIB, "small"), LIMIT_S)).release()
    now[0] += 2
    await asyncio.sleep(0.05)
    small = asyncio.create_task(memory.reserve(2 * GIB, "small"))
    await asyncio.sleep(0.05)
    assert not small.done() and not large.done()
    first.release()
    (await asyncio.wait_for(large, LIMIT_S)).release()
    (await asyncio.wait_for(small, LIMIT_S)).release()


async def test_more_than_there_is_waits_for_all_of_it_and_a_cancelled_request_stands_in_nobodys_way(tmp_path):
    memory = memory_of(tmp_path)
    first = await memory.reserve(GIB, "first")
    waiting = asyncio.Event()
    request = asyncio.create_task(memory.reserve(99 * GIB, "all", lambda _: waiting.set()))
    await asyncio.wait_for(waiting.wait(), LIMIT_S)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    second = await asyncio.wait_for(memory.reserve(7 * GIB, "second"), LIMIT_S)
    first.release()
    second.release()
    everything = await asyncio.wait_for(memory.reserve(99 * GIB, "all"), LIMIT_S)
    assert everything.size == 8 * GIB
    everything.release()
    everything.release()


async def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(InputError, match="KERNELSWARM_HOME"):
        await memory_of(tmp_path / "home").reserve(1, "any")


def problem(name: str) -> Problem:
    return Problem(name=name, format=ProblemFormat.function, source=name, sha256=name)


def facts(size: int) -> ProblemFacts:
    fact = InputFact(name="x", kind="tensor", shape=(size // 4,), dtype="float32")
    work = Work(read_bytes=size, write_bytes=size, flops=0)
    shape = ShapeFacts(name="main", inputs=(fact,), outputs=(fact,), work=work)
    return ProblemFacts(signature=("x",), shapes=(shape,), graph=None, work=work, dtype="float32", float64_oracle=True)


def demand() -> int:
    return memory_demand.demand_of(facts(1 << 20), None)


async def test_an_idle_problem_gives_its_memory_up_to_one_that_waits(tmp_path):
    forgotten = []

    async def forget(key: str) -> None:
        forgotten.append(key)
        memory.release(key)

    capacity = int(1.5 * demand())
    memory = ProblemMemory(MemoryReservations(POOL, tmp_path, capacity), None, forget, idle_s=0.05)
    other = ProblemMemory(MemoryReservations(POOL, tmp_path, capacity), None, forget)
    notices, waiting = [], asyncio.Event()
    other.notify(problem("b"), lambda text: (notices.append(text), waiting.set()))

    async def second() -> None:
        async with other.using(problem("b"), facts(1 << 20)):
            pass

    async with memory.using(problem("a"), facts(1 << 20)), memory.using(problem("a"), facts(1 << 20)):
        task = asyncio.create_task(second())
        await asyncio.wait_for(waiting.wait(), LIMIT_S)
        assert not forgotten
    await asyncio.wait_for(task, LIMIT_S)
    assert forgotten == ["a"] and "held by a (" in notices[0] and notices[-1] == ""
    await memory.close()
    await other.close()
    assert memory.reservations.holdings() == []


async def test_an_idle_problem_keeps_memory_from_others_no_longer_than_its_longest_step_took(tmp_path, monkeypatch):
    now, forgotten = [100.0], []
    monkeypatch.setattr(problem_memory, "CHECK_S", 0.01)
    monkeypatch.setattr(problem_memory, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def forget(key: str) -> None:
        forgotten.append(key)
        memory.release(key)

    memory = ProblemMemory(MemoryReservations(POOL, tmp_path, 2 * demand()), None, forget)
    for name, step_s in (("long", 20.0), ("short", 4.0), ("short", 1.0)):
        async with memory.using(problem(name), facts(1 << 20)):
            now[0] += step_s
    waiting, entered = asyncio.Event(), asyncio.Event()
    memory.notify(problem("another"), lambda text: waiting.set())

    async def another() -> None:
        async with memory.using(problem("another"), facts(1 << 20)):
            entered.set()

    task = asyncio.create_task(another())
    await asyncio.wait_for(waiting.wait(), LIMIT_S)
    now[0] += 3.9
    await asyncio.sleep(0.1)
    assert not forgotten
    now[0] += 0.2
    await asyncio.wait_for(entered.wait(), LIMIT_S)
    assert forgotten == ["short"]
    await task
    await memory.close()


def test_what_a_call_was_seen_to_take_on_a_device_counts_and_not_what_its_graph_says():
    device = Accelerator(index=0, name="GPU", uuid="u", target="sm_90", memory_bytes=80 * GIB)
    seen = structs.replace(facts(1 << 20), peak_bytes=GIB)
    least = memory_demand.CALLS_ON_DEVICE * GIB + memory_demand.CONTEXTS * memory_demand.CONTEXT_BYTES
    assert least < memory_demand.demand_of(seen, device) < least + GIB // 4
    weight = InputFact(name="w", kind="tensor", shape=(GIB // 16,), dtype="float32")
    heavy = structs.replace(seen, parameters={"w": weight}, peak_bytes=GIB // 2)
    assert memory_demand.call_bytes(heavy) == 0, "all of it was weights, and what they began as"
    assert memory_demand.demand_of(heavy, device) < memory_demand.demand_of(seen, device)
    assert memory_demand.processes_at_once(heavy, device) > memory_demand.processes_at_once(seen, device) == 3
    large = structs.replace(facts(2 * GIB), peak_bytes=4 * GIB)
    more = structs.replace(large, peak_bytes=5 * GIB)
    one_at_a_time = memory_demand.demand_of(more, device) - memory_demand.demand_of(large, device)
    assert one_at_a_time == memory_demand.LARGE_CALLS_ON_DEVICE * GIB


def test_intermediates_count_while_they_are_needed():
    def call(name: str, *args: str, size: int) -> Node:
        meta = TensorMeta(shape=(size,), dtype="float32", example=(size,))
        return Node(name=name, op="call", args=tuple(Ref(name=arg) for arg in args), values=(meta,))

    chain = Graph(
        nodes=(
            Node(name="x", op="input"),
            call("a", "x", size=100),
            call("b", "a", size=10),
            call("c", "b", size=10),
            call("d", "c", "a", size=1),
            Node(name="out", op="output", args=(Ref(name="d"),)),
        )
    )
    assert largest_live_bytes(chain) == 4 * (100 + 10 + 10)


def test_demand_on_a_device_is_of_its_memory_and_grows_with_weights():
    device = Accelerator(index=0, name="GPU", uuid="u", target="sm_90", memory_bytes=80 * GIB)
    small = memory_demand.demand_of(facts(1 << 20), device)
    assert small > memory_demand.CONTEXTS * memory_demand.CONTEXT_BYTES
    assert memory_demand.demand_of(facts(64 << 20), device) > small
    assert memory_demand.capacity_of(16 * GIB, device) < 80 * GIB and memory_demand.capacity_of(GIB, None) == GIB


async def test_a_label_is_one_line_and_what_is_no_reservation_is_none(tmp_path):
    memory = MemoryReservations(POOL, tmp_path, 8 * GIB)
    reservation = await memory.reserve(GIB, "softmax\n9 of\tsomebody  else")
    (held,) = (tmp_path / "leases").glob("*.memory")
    (held / "folder.held").mkdir()
    assert [(holding.label, holding.size) for holding in memory.holdings()] == [("softmax 9 of somebody else", GIB)]
    reservation.release()
    assert memory.holdings() == [] and (held / "folder.held").is_dir()


async def test_an_idle_problem_lets_go_of_descriptors_where_they_are_scarce(tmp_path, monkeypatch):
    forgotten, is_forgotten = [], asyncio.Event()

    async def forget(key: str) -> None:
        forgotten.append(key)
        memory.release(key)
        is_forgotten.set()

    monkeypatch.setattr(problem_memory, "CHECK_S", 0.01)
    memory = ProblemMemory(MemoryReservations(POOL, tmp_path, 8 * demand()), None, forget, idle_s=0.02)
    async with memory.using(problem("in use"), facts(1 << 20)):
        async with memory.using(problem("idle"), facts(1 << 20)):
            pass
        await asyncio.sleep(0.1)
        assert not forgotten, "there are enough"
        monkeypatch.setattr(problem_memory, "DESCRIPTORS_SHARE", 0.0)
        await asyncio.wait_for(is_forgotten.wait(), LIMIT_S)
        await asyncio.sleep(0.1)
        assert forgotten == ["idle"]
    await memory.close()
