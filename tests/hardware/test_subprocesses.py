"""Programs that are started and cancelled at any moment: the caller goes on, and nothing is left running."""

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from kernelswarm.hardware.processes import subprocesses
from kernelswarm.hardware.processes.limited_command import Limits, run_limited

TURNS = range(12)
"""Of the event loop, after which it is cancelled; asyncio needs fewer to start a program."""
PIPE = asyncio.subprocess.PIPE


def running(marker: str) -> list[str]:
    """Command lines of this machine's processes that hold ``marker``."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_text()
        except OSError:
            continue
        if marker in line:
            lines.append(line)
    return lines


async def cancelled_after(turns: int, work: Coroutine[Any, Any, object], *, times: int) -> None:
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    done, _ = await asyncio.wait({task}, timeout=20)
    assert done, f"cancelled after {turns} turns it never ended"
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.asyncio
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("turns", TURNS)
async def test_a_limited_command_may_be_cancelled_at_any_moment(turns: int, times: int, tmp_path: Path) -> None:
    seconds = f"61.{turns}{times}{id(tmp_path) % 10**6}"
    limits = Limits(seconds=60, memory_bytes=1 << 40, file_bytes=1 << 20)
    await cancelled_after(turns, run_limited(["sleep", seconds], cwd=tmp_path, limits=limits), times=times)
    for _ in range(200):
        if not running(seconds):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it still runs")


@pytest.mark.asyncio
async def test_a_program_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        await subprocesses.start("/no/such/program", stdin=PIPE)


@pytest.mark.asyncio
@pytest.mark.parametrize("command", ["yes", "setsid sleep 7 & sleep 6"])
async def test_who_is_late_is_ended_although_its_pipe_is_full_or_held_by_others(command: str, tmp_path: Path) -> None:
    limits = Limits(seconds=0.5, memory_bytes=1 << 40, file_bytes=1 << 20)
    async with asyncio.timeout(4):
        finished = await run_limited(["/bin/sh", "-c", command], cwd=tmp_path, limits=limits)
    assert finished.timed_out
    assert finished.returncode == -9


@pytest.mark.asyncio
async def test_a_child_that_stays_behind_with_the_pipe_holds_nobody_up(tmp_path: Path) -> None:
    limits = Limits(seconds=60.0, memory_bytes=1 << 40, file_bytes=1 << 20)
    command = "setsid sleep 40 & seq 100000 | tail -c 20001; exit 3"
    finished = await run_limited(["/bin/sh", "-c", command], cwd=tmp_path, limits=limits)
    assert not finished.timed_out and finished.seconds < 30 and finished.returncode == 3
    assert len(finished.output) == 20001 and finished.output.endswith("100000\n")


@pytest.mark.parametrize("turns", range(9))
def test_a_loop_may_close_while_a_program_starts(turns: int) -> None:
    code = f"""
import asyncio
import subprocess
import sys
from kernelswarm.hardware.processes import subprocesses

async def main():
    pipe = asyncio.subprocess.PIPE
    task = asyncio.ensure_future(subprocesses.start("sleep", "8.125{turns}", stdin=pipe, stdout=pipe))
    for _ in range({turns}):
        await asyncio.sleep(0)
    if task.done():
        await subprocesses._end(task.result())

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=20, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not running(f"8.125{turns}")


@pytest.mark.asyncio
async def test_many_files_of_a_command_are_too_much_together(tmp_path: Path) -> None:
    command = "i=0; while [ $i -lt 8 ]; do head -c 1000000 /dev/zero > $i; i=$((i + 1)); done; sleep 600"

    finished = await run_limited(["/bin/sh", "-c", command], cwd=tmp_path, limits=Limits(60.0, 1 << 30, 1 << 20))

    assert finished.returncode == -9 and not finished.timed_out
    assert "its files take more than 4194304 bytes" in finished.output
