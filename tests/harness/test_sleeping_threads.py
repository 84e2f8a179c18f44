"""Where nothing is timed, OpenMP's threads sleep while they wait: on a busy machine they would spin for each other."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
from pathlib import Path
import torch
from kernelswarm.hardware.harness.calls.sleeping_threads import _libgomp, sleep_while_waiting

if _libgomp() is None:
    print("no libgomp")
    sys.exit()
torch.set_num_threads(2)
if sys.argv[1] == "asleep":
    sleep_while_waiting(2)
before = set(Path("/proc/self/task").iterdir())
data = torch.ones(1 << 17)
data.add_(1)
(worker,) = set(Path("/proc/self/task").iterdir()) - before
for _ in range(300):
    data.add_(1)
    time.sleep(0.0003)
status = (worker / "status").read_text()
print(status.split("nvoluntary_ctxt_switches:")[0].split("voluntary_ctxt_switches:")[1].split()[0])
"""
CALLS = 300


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_other_thread_sleeps_after_every_call() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "asleep"], capture_output=True, text=True, check=True)
    if done.stdout.strip() == "no libgomp":
        pytest.skip("torch uses another OpenMP here")
    assert int(done.stdout) > 0.9 * CALLS
