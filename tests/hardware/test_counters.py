"""Counters of a process: the kernel's own always, the processor's where there are any."""

import errno
import subprocess
import sys

import pytest

from kernelswarm.hardware.profilers import CounterSession, perf, perf_event, why_no_hardware_counters

PAGES = 500
WORKER = f"""
import mmap, sys, threading
def touch(done):
    block = mmap.mmap(-1, {PAGES} * mmap.PAGESIZE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        block.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range({PAGES}):
        block[page * mmap.PAGESIZE] = 1
    done.set()
begin = threading.Event()
threads = []
for line in sys.stdin:
    done = threading.Event()
    threading.Thread(target=touch, args=(done,)).start()
    done.wait()
    print("done", flush=True)
"""


@pytest.fixture
def worker():
    process = subprocess.Popen([sys.executable, "-c", WORKER], stdin=-1, stdout=-1, text=True)
    call(process)
    yield process
    process.kill()
    process.communicate()


def call(process) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def test_page_faults_are_counted_per_call(worker):
    with CounterSession() as session:
        session.start(worker.pid)
        for _ in range(4):
            call(worker)
        counters = session.stop(calls=4)
    assert counters is not None and "procfs" in counters.source
    assert PAGES <= counters.values["page_faults"] < 2 * PAGES
    assert counters.values["context_switches"] > 0 and counters.values["cpu_ms"] >= 0


def test_a_process_that_is_gone_gives_none(worker):
    session = CounterSession()
    session.start(worker.pid)
    worker.kill()
    worker.wait()
    assert session.stop() is None
    with pytest.raises(ProcessLookupError):
        session.start(worker.pid)


def test_hardware_counters_are_there_or_the_reason_is(worker):
    session = CounterSession()
    session.start(worker.pid)
    call(worker)
    counters = session.stop()
    assert counters is not None
    assert (session.unavailable == "") == ("instructions" in counters.values)
    assert session.unavailable == why_no_hardware_counters()


def test_a_counter_follows_threads_that_start_later(worker, monkeypatch):
    # The kernel's own page fault event goes the way of the processor's, and is offered in virtual machines too.
    monkeypatch.setattr(perf_event, "EVENTS", {"faults": (1, 2)})
    monkeypatch.setattr(perf, "EVENTS", {"faults": (1, 2)})
    try:
        perf_event.read_counter(perf_event.open_counter("faults", 0))
    except OSError as error:
        pytest.skip(perf_event.explain(error))
    session = CounterSession()
    session.unavailable = ""
    session.start(worker.pid)
    call(worker)
    counters = session.stop()
    assert counters is not None and counters.source == "perf+procfs"
    assert PAGES <= counters.values["faults"] < 2 * PAGES


@pytest.mark.parametrize(
    ("code", "message"),
    [(errno.EACCES, "perf_event_paranoid"), (errno.ENOENT, "virtual machine"), (errno.ENOSYS, "perf_event_open")],
)
def test_each_reason_is_a_sentence(code, message):
    assert message in perf_event.explain(OSError(code, "no"))
