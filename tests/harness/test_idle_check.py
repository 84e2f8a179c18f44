"""Processor time that a process uses while it is not its turn."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kernelswarm.hardware.harness.clocks import work_ns
from kernelswarm.hardware.harness.idle_check import LEAST_NS, IdleCheck

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
        rest, began = IdleCheck(pid), work_ns(pid)
        assert began is not None
        rest.begin()
        deadline = time.monotonic() + 60
        while (work_ns(pid) or 0) < began + 4 * LEAST_NS and time.monotonic() < deadline:
            pass
        rest.end()
    assert rest.used_ns >= 4 * LEAST_NS and rest.rested_ns > 0
    rest.rested_ns = rest.used_ns  # on a machine that is busy with others it gets little of its time
    assert rest.is_none
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert not rest.is_none


def test_a_process_that_waits_rests() -> None:
    with running("import time\ntime.sleep(600)") as pid:
        rest = IdleCheck(pid)
        rest.begin()
        time.sleep(4 * LEAST_NS / 1e9)
        rest.end()
    assert rest.rested_ns >= LEAST_NS and not rest.is_none


def test_a_short_rest_and_an_unknown_process_say_nothing() -> None:
    rest = IdleCheck(0)
    rest.begin()
    rest.end()
    assert (rest.used_ns, rest.rested_ns) == (0, 0)
    rest.used_ns = rest.rested_ns = LEAST_NS - 1
    assert not rest.is_none
