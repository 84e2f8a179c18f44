"""A child gets none of the descriptors of its reaper: it could keep it from seeing to the child's end."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, os, signal, sys
from kernelswarm.hardware.processes import sandbox
from kernelswarm.hardware.processes.messages import Spawn
from kernelswarm.hardware.processes.reaped_child import run_reaper

def work(channel, layers):
    opened = sorted(os.listdir("/proc/self/fd"), key=int)
    handlers = [int(signal.getsignal(number)) for number in (signal.SIGCHLD, signal.SIGCONT)]
    channel.sendall(json.dumps([opened, channel.fileno(), signal.set_wakeup_fd(-1), handlers]).encode())

request = Spawn(role="candidate", scratch=sys.argv[3], memory_bytes=1 << 30, threads=1, confine=True)
sandbox.separate_files = sandbox.wall_in = lambda request: ()
pid, _ = sandbox.ProcessSpaces().fork()
if pid == 0:
    run_reaper(request, [int(sys.argv[1]), int(sys.argv[2]), os.dup(1)], (), work)
os.waitpid(pid, 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are listed in /proc")
def test_a_child_has_its_channel_and_its_output(tmp_path: Path) -> None:
    (channel, theirs), (parent_death, its) = socket.socketpair(), socket.socketpair()
    channel.settimeout(30.0)
    arguments = (str(theirs.fileno()), str(its.fileno()), str(tmp_path))
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with subprocess.Popen(command, pass_fds=(theirs.fileno(), its.fileno()), stdout=subprocess.DEVNULL):
        theirs.close()
        its.close()
        opened, own, wakeup, handlers = json.loads(channel.recv(1 << 16))
        channel.close()
        parent_death.close()
    # One more is that of the listing.
    assert {"0", "1", "2", str(own)} < set(opened) and len(opened) == 5
    assert wakeup == -1 and handlers == [signal.SIG_DFL, signal.SIG_DFL]
