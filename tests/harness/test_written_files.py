"""All that a candidate's process writes is bounded, and not each of its files alone."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kernelswarm.hardware.processes import wire, written
from kernelswarm.hardware.processes.messages import Ended

MIB = 1 << 20
PROGRAM = """
import os, signal, sys, threading, time
from kernelswarm.hardware.processes import sandbox
from kernelswarm.hardware.processes.messages import Spawn
from kernelswarm.hardware.processes.reaped_child import run_reaper

def signals_its_reaper():
    while True:
        os.kill(os.getppid(), signal.SIGCHLD)
        time.sleep(0.05)

def work(channel, layers):
    if sys.argv[5] == "beside signals":
        threading.Thread(target=signals_its_reaper, daemon=True).start()
    for number in range(int(sys.argv[4])):
        if sys.argv[5] in ("memory", "beside signals"):
            file = os.memfd_create("mine")
        else:
            file = os.open(os.path.join(sys.argv[3], str(number)), os.O_RDWR | os.O_CREAT)
            if sys.argv[5] == "removed":
                os.unlink(os.path.join(sys.argv[3], str(number)))
        os.write(file, b"a" * (1 << 20))
    channel.recv(1)

request = Spawn(
    role="candidate", scratch=sys.argv[3], memory_bytes=(4 << 20) - sandbox.SCRATCH_BYTES, threads=1, confine=True
)
# As where nothing may be mounted: the folder lies on the disk.
sandbox.separate_files = lambda request: ()
parent_death = int(sys.argv[2])
run_reaper(request, [int(sys.argv[1]), parent_death, os.dup(1)], (), work)
"""


@pytest.mark.parametrize("kind", ["named", "removed", "memory", "beside signals"])
@pytest.mark.parametrize("files", [2, 8])
def test_many_files_are_too_much_together(tmp_path: Path, kind: str, files: int) -> None:
    (channel, theirs), (parent_death, its) = socket.socketpair(), socket.socketpair()
    parent_death.settimeout(60.0 if files == 8 else 3.0)
    arguments = (str(theirs.fileno()), str(its.fileno()), str(tmp_path), str(files), kind)
    command = [sys.executable, "-c", PROGRAM, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, pass_fds=(theirs.fileno(), its.fileno()), stdout=pipe) as process:
        theirs.close()
        its.close()
        if files == 2:
            with pytest.raises(TimeoutError):
                wire.receive(parent_death, Ended)
        else:
            ended, _ = wire.receive(parent_death, Ended)
            assert ended.signal == 9
        channel.close()
        parent_death.close()
        output, _ = process.communicate()
    assert (b"out of memory: its files take more than" in output) is (files == 8)


def test_what_is_written_is_counted_once(tmp_path: Path) -> None:
    before = written.written_bytes(str(tmp_path), os.getpid())
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").write_bytes(b"a" * MIB)
    os.link(tmp_path / "folder" / "one", tmp_path / "again")
    file = os.memfd_create("mine")
    os.write(file, b"a" * MIB)
    again = os.dup(file)
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(100 * MIB)
    try:
        assert 2 * MIB <= written.written_bytes(str(tmp_path), os.getpid()) - before < 3 * MIB
    finally:
        os.close(file)
        os.close(again)


def test_too_many_files_are_not_counted_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "MOST_FILES", 3)
    for number in range(5):
        (tmp_path / str(number)).touch()
    with pytest.raises(written.TooMany):
        written.written_bytes(str(tmp_path), 0)
