"""A process stands still while it is not timed, and what it left is read without its help."""

import ctypes
import fcntl
import mmap
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy
import pytest

from kernelswarm.hardware.harness.inputs.input_sets import (
    LEAST_BATCHES,
    LEAST_SETS,
    MOST_SETS,
    InputSets,
    judged_sets,
    sets_for,
)
from kernelswarm.hardware.harness.messages.batch import ArenaMade, Batch, Kept, Made, MakeArena
from kernelswarm.hardware.harness.tensors.values import Values
from kernelswarm.hardware.harness.timing.batch_timing import counted
from kernelswarm.hardware.harness.timing.clocks import work_ns
from kernelswarm.hardware.harness.timing.freezing import Frozen, Unreadable, elements
from kernelswarm.hardware.harness.timing.timekeeper import Arena
from kernelswarm.hardware.harness.timing.timekeeping import (
    MOST_CHECKED,
    TimedBatch,
    TimedProcess,
    TimekeeperDied,
    TimekeeperProcess,
    Unseen,
)
from kernelswarm.hardware.processes import wire
from kernelswarm.hardware.processes.messages import Failure
from kernelswarm.hardware.processes.worker import Worker

SPINS = """
import ctypes, sys, threading, time
data = (ctypes.c_float * 4096)(*range(4096))
def spin():
    while True:
        time.perf_counter_ns()
for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
print(ctypes.addressof(data), flush=True)
spin()
"""


@pytest.fixture
def spinning() -> Iterator[tuple[Frozen, int]]:
    """A process of four threads that compute, and the address of 4096 floats that it holds."""
    with subprocess.Popen([sys.executable, "-c", SPINS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        frozen = Frozen(process.pid)
        yield frozen, int(process.stdout.readline())
        frozen.close()
        process.kill()


def test_every_thread_stands_still_until_it_may_go_on(spinning: tuple[Frozen, int]) -> None:
    process, _ = spinning
    assert process.stop(60.0)
    worked = work_ns(process.pid)
    time.perf_counter()
    assert worked is not None and work_ns(process.pid) == worked
    process.go_on()
    deadline = time.monotonic() + 60.0
    while work_ns(process.pid) == worked and time.monotonic() < deadline:
        pass
    assert work_ns(process.pid) != worked


def test_a_process_that_ended_while_it_was_stopped_is_said_to_have() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(ProcessLookupError, match="has ended"):
        Frozen(process.pid)._stands_still()


def test_threads_start_on_cores_of_their_own_and_may_leave_them(spinning: tuple[Frozen, int]) -> None:
    process, _ = spinning
    assert process.stop(60.0)
    threads = [int(thread.name) for thread in Path(f"/proc/{process.pid}/task").iterdir()]
    allowed = os.sched_getaffinity(process.pid)
    process.place()
    placed = Counter(core for thread in threads for core in os.sched_getaffinity(thread))
    assert placed.keys() <= allowed and max(placed.values()) == -(-len(threads) // len(allowed))
    process.go_on()
    assert all(os.sched_getaffinity(thread) == allowed for thread in threads)


@pytest.mark.parametrize(
    ("shape", "stride"),
    [((4096,), (1,)), ((64, 64), (64, 1)), ((64, 64), (1, 64)), ((3, 1, 5), (100, 7, 2)), ((2, 4), (0, 1)), ((), ())],
)
def test_elements_are_read_in_order(
    spinning: tuple[Frozen, int], shape: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    process, address = spinning
    assert process.stop(60.0)
    numbers = numpy.arange(4096, dtype=numpy.float32)
    steps = tuple(4 * step for step in stride)
    expected = numpy.lib.stride_tricks.as_strided(numbers, shape, steps).tobytes()
    assert elements(process, address, shape, stride, 4) == expected


@pytest.mark.parametrize(
    ("address", "shape", "stride", "why"),
    [
        (8, (4,), (1,), "cannot be read"),
        (0, (4,), (1 << 40,), "spread over"),
        (0, (4,), (-1,), "no tensor of shape"),
        (0, (4, 4), (1,), "no tensor of shape"),
    ],
)
def test_what_is_no_tensor_is_said(
    spinning: tuple[Frozen, int], address: int, shape: tuple[int, ...], stride: tuple[int, ...], why: str
) -> None:
    process, _ = spinning
    assert process.stop(60.0)
    with pytest.raises(Unreadable, match=why):
        elements(process, address, shape, stride, 4)


def test_who_has_ended_is_not_waited_for(spinning: tuple[Frozen, int]) -> None:
    process, _ = spinning
    os.kill(process.pid, 9)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    # Its parent has not asked for its end: what is left of it stands still, and has no memory.
    assert process.stop(60.0)
    with pytest.raises(Unreadable):
        process.read(4096, 8)


@pytest.fixture
def arena() -> Iterator[Arena]:
    """Four sets of a page; the pool has eight, each filled with its number."""
    pool = os.memfd_create("pool")
    os.write(pool, b"".join(bytes([number]) * mmap.PAGESIZE for number in range(8)))
    made = Arena(MakeArena(stride=mmap.PAGESIZE, pool=8, sets=4, warm=2), pool)
    yield made
    made.close()
    os.close(pool)


def test_an_arena_shows_what_was_written_last(arena: Arena) -> None:
    seen = mmap.mmap(arena.file, 4 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
    assert seen[:: mmap.PAGESIZE] == bytes([0, 1, 0, 1])
    arena.fill([7, 5])
    assert seen[:: mmap.PAGESIZE] == bytes([7, 5, 0, 1])


def test_only_the_timekeeper_writes_an_arena(arena: Arena) -> None:
    again = os.open(f"/proc/self/fd/{arena.file}", os.O_RDWR)
    try:
        for file in (arena.file, again):
            with pytest.raises(OSError):
                os.pwrite(file, b"x", 0)
            with pytest.raises(OSError):
                mmap.mmap(file, mmap.PAGESIZE)
            with pytest.raises(OSError):
                os.ftruncate(file, 0)
            with pytest.raises(OSError):
                fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    finally:
        os.close(again)


def test_a_private_mapping_of_an_arena_can_be_written_without_anybody_else_seeing_it(arena: Arena) -> None:
    own, other = (mmap.mmap(arena.file, 4 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) for _ in range(2))
    own[0] = 9
    assert other[0] == 0 and ctypes.c_char.from_buffer(own).value == b"\x09"


def test_a_pool_has_sets_for_eight_batches() -> None:
    memory = 16 << 30
    assert sets_for(1 << 16, 100, memory) == 100
    assert sets_for(1 << 16, 1 << 20, memory) == MOST_SETS
    assert sets_for(1 << 16, 1, memory) == LEAST_SETS
    assert sets_for(1 << 30, 100, memory) == 0
    assert sets_for(32 << 20, 1000, memory) == 16
    supply = InputSets(-1, (Values(items=(), size=0),), 1 << 16, 1000, 0, {})
    assert supply.warm + LEAST_BATCHES * supply.most_calls <= 1000 < supply.warm + (LEAST_BATCHES + 1) * 124
    assert 0 < judged_sets(15, 32 << 20, 32 << 20) < judged_sets(1000, 1 << 16, 1 << 16) <= 1000


def test_what_is_nested_without_end_is_no_message() -> None:
    deep = b"\x82\xa4type\xa4made\xa1x" + b"\x91" * 100_000 + b"\xc0"
    with pytest.raises(msgspec.DecodeError, match="recursion"):
        wire.unframe(deep, Made)


@pytest.mark.parametrize("calls", [1, 3, 40])
def test_every_batch_has_judged_sets_however_few_calls_it_makes(calls: int) -> None:
    judged = set(range(100, 148))
    unseen = Unseen(range(8, 2000), judged)
    seen: list[int] = []
    while unseen.has(calls):
        batch = unseen.take(calls)
        assert len(batch) == calls
        assert len(judged.intersection(batch)) == min(calls, 48 // LEAST_BATCHES)
        seen += batch
    assert len(set(seen)) == len(seen) >= LEAST_BATCHES * calls


def test_all_sets_are_used_where_all_are_judged() -> None:
    unseen = Unseen(range(2, 10), set(range(10)))
    assert sorted(unseen.take(3) + unseen.take(5)) == list(range(2, 10))
    assert not unseen.has(1)


@pytest.mark.parametrize(("passed", "idle", "counts"), [(1000, 90, 910), (100, 90, 50), (100, 300, 50)])
def test_what_an_empty_batch_takes_is_taken_off_but_never_more_than_half(passed: int, idle: int, counts: int) -> None:
    assert counted(TimedBatch(1, passed, ()), idle).ns == counts


def test_calls_made_one_by_one_count_as_often_as_they_were_made() -> None:
    batch = TimedBatch(calls=15, ns=9_000, checked=(), steps_ns=(300, 200, 200, 250, 200))
    assert counted(batch, idle_ns=0).ns == 15 * 200


class RecordedSteps(TimedProcess):
    """Takes ``call`` microseconds for each call, and notes after which it was stopped."""

    stops: tuple[int, ...] = ()

    async def _exchange(
        self, command: Batch, numbers: Sequence[int], checked: Sequence[int], seconds: float, most_bytes: int
    ) -> tuple[Kept, list[int]]:
        self.stops = tuple(checked)
        answer = wire.frame(Made(forms=(), calls=()))[wire.HEADER.size :]
        files = [os.memfd_create("outputs") for _ in checked]
        steps = tuple(1000 * call for call in range(command.calls))
        return Kept(ns=sum(steps), answer=answer, steps_ns=steps, problems=("",) * len(files)), files


async def test_who_asks_when_all_is_over_starts_no_process(tmp_path: Path) -> None:
    timekeeper = TimekeeperProcess(lambda: tmp_path)
    pool = os.memfd_create("pool")
    os.ftruncate(pool, mmap.PAGESIZE)
    made, files = await timekeeper.ask(MakeArena(stride=64, pool=1, sets=1, warm=1), ArenaMade, (pool,))
    assert made.arena == 1 and timekeeper.pid
    await timekeeper.close()
    with pytest.raises(TimekeeperDied, match="closed"):
        await timekeeper.ask(MakeArena(stride=64, pool=1, sets=1, warm=1), ArenaMade, (pool,))
    assert not timekeeper.pid
    wire.close_all([pool, *files])


@pytest.mark.parametrize("is_ours", [True, False])
async def test_baselines_are_stopped_as_often_and_no_call_after_a_stop_counts(
    monkeypatch: pytest.MonkeyPatch, is_ours: bool
) -> None:
    file = os.memfd_create("pool")
    supply = InputSets(file, (Values(items=(), size=0),), 64, 200, 64, {number: number for number in range(200)})
    worker = object.__new__(Worker)
    monkeypatch.setattr(worker, "go_on", lambda: None)
    process = RecordedSteps(TimekeeperProcess(Path), worker, supply, is_ours=is_ours)

    command = Batch(calls=20, one_by_one=True)
    batch = await process.batch(command, unseen=not is_ours, most_checked=MOST_CHECKED, seconds=1.0)

    assert not isinstance(batch, Failure)
    wire.close_all([file, *(call.file for call in batch.checked)])
    await process.clear()
    assert len(process.stops) == MOST_CHECKED and len(batch.checked) == (0 if is_ours else MOST_CHECKED)
    after_stops = {0, *(call + 1 for call in process.stops)}
    assert set(batch.steps_ns) == {1000 * call for call in range(20) if call not in after_stops}
