"""Whoever is timed goes before everybody else, for as long as that takes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelswarm.hardware.harness import precedence
from kernelswarm.hardware.harness.precedence import precedence as going_first

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="priorities of Linux")

WAITS = "import threading, sys; threading.Thread(target=sys.stdin.read).start(); print(flush=True)"


@pytest.fixture
def pid() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield process.pid
        process.kill()


def policies(pid: int) -> set[int]:
    threads = [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) == 2
    return {os.sched_getscheduler(thread) for thread in threads}


def test_every_thread_gets_it_and_gives_it_back(pid: int) -> None:
    with going_first((pid,)) as granted:
        # Without privileges nothing is changed.
        assert policies(pid) == {os.SCHED_RR if granted else os.SCHED_OTHER}
        # So does who reads the clock, and nobody whom that starts.
        assert (os.sched_getscheduler(0) != os.SCHED_OTHER) is granted
        with going_first((pid,)) as again:
            assert again is granted
        assert (os.sched_getscheduler(0) != os.SCHED_OTHER) is granted
        with subprocess.Popen([sys.executable, "-c", "pass"]) as started:
            assert os.sched_getscheduler(started.pid) == os.SCHED_OTHER
    assert policies(pid) == {os.SCHED_OTHER}
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_it_ends_with_an_exception_too(pid: int) -> None:
    with pytest.raises(ValueError, match="timed"), going_first((pid,)):
        raise ValueError("timed")
    assert policies(pid) == {os.SCHED_OTHER}


def test_not_where_nothing_would_be_left_for_others(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precedence, "_leaves_time", lambda: False)
    with going_first((pid,)) as granted:
        assert not granted and policies(pid) == {os.SCHED_OTHER}


def test_not_for_a_process_of_many_threads(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precedence, "_MOST_THREADS", 1)
    with going_first((pid,)) as granted:
        assert not granted and policies(pid) == {os.SCHED_OTHER}


def test_not_for_whom_nobody_knows_or_who_is_gone(pid: int) -> None:
    for others in ((pid, 0), (pid, 2**22 - 1)):
        with going_first(others) as granted:
            assert not granted and policies(pid) == {os.SCHED_OTHER}
    with going_first((pid,), wanted=False) as granted:
        assert not granted
    assert policies(pid) == {os.SCHED_OTHER}
