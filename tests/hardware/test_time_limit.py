"""Limits of time in which waiting for a core does not count."""

import asyncio
import os
import subprocess
import sys

import pytest

from kernelswarm.hardware.processes.time_limit import MOST, time_limit, waited_seconds

SPINS = """
import os, threading
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
def spin():
    while True:
        os.getpid()
threads = [threading.Thread(target=spin, daemon=True) for _ in range(3)]
[thread.start() for thread in threads]
print(flush=True)
spin()
"""


async def _seconds(limit: float, waited: list[float]) -> float:
    """After how many seconds it ends what would never end; ``waited`` is what its threads have waited, at each look."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with time_limit(limit, lambda: waited.pop(0) if len(waited) > 1 else waited[0]):
            await loop.create_future()
    return loop.time() - began


@pytest.mark.parametrize(
    ("waited", "least"),
    [
        pytest.param([0.0], 0.1, id="no waiting"),
        pytest.param([5.0], 0.1, id="what it waited before does not count"),
        pytest.param([0.0, 0.1], 0.2, id="as much as it ran"),
        pytest.param([0.0, 0.1, 0.2], 0.3, id="more meanwhile"),
        pytest.param([0.0, 1e9], 0.1 * MOST, id="without end"),
    ],
)
async def test_a_limit_is_longer_by_what_threads_wait(waited: list[float], least: float) -> None:
    seconds = await _seconds(0.1, waited)
    assert seconds >= least * 0.99


async def test_a_limit_does_not_grow_without_end() -> None:
    assert await _seconds(0.05, [float(look) for look in range(1000)]) < 60.0


async def test_what_ends_in_time_is_left_alone() -> None:
    async with time_limit(60.0, lambda: 0.0):
        await asyncio.sleep(0)


def test_threads_that_share_a_core_wait_for_it() -> None:
    with subprocess.Popen([sys.executable, "-c", SPINS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while waited_seconds(process.pid) < 0.05:
            os.sched_yield()
        process.kill()


def test_of_who_has_ended_nothing_is_known() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert waited_seconds(process.pid) == 0.0
