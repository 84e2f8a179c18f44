"""Processor time that a process uses while it is not its turn."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kernelswarm.hardware.harness.timing.clocks import work_ns
from kernelswarm.hardware.harness.timing.idle_check import LEAST_NS, IdleCheck

pytestmark = pytest.mark.skipif(work_ns(os.getpid()) is None, reason="this system does not tell it")


@contextmanager
def running(code: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", f"print(flush=True)\n{code}"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_a_process_that_computes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    with running("import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()") as pid:
        idle_check, began = IdleCheck(pid), work_ns(pid)
        assert began is not None
        idle_check.begin()
        deadline = time.monotonic() + 60
        while (work_ns(pid) or 0) < began + 4 * LEAST_NS and time.monotonic() < deadline:
            pass
        idle_check.end()
    assert idle_check.used_ns >= 4 * LEAST_NS and idle_check.rested_ns > 0
    idle_check.rested_ns = idle_check.used_ns  # on a machine that is busy with others it gets little of its time
    assert idle_check.is_none
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert not idle_check.is_none


def test_a_process_that_waits_rests() -> None:
    with running("import time\ntime.sleep(600)") as pid:
        idle_check = IdleCheck(pid)
        idle_check.begin()
        time.sleep(4 * LEAST_NS / 1e9)
        idle_check.end()
    assert idle_check.rested_ns >= LEAST_NS and not idle_check.is_none


def test_a_short_rest_and_an_unknown_process_say_nothing() -> None:
    idle_check = IdleCheck(0)
    idle_check.begin()
    idle_check.end()
    assert (idle_check.used_ns, idle_check.rested_ns) == (0, 0)
    idle_check.used_ns = idle_check.rested_ns = LEAST_NS - 1
    assert not idle_check.is_none
