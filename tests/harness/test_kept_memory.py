"""Processes that are timed keep what they free: no call pays for memory that the one before it had."""

import subprocess
import sys

from kernelswarm.hardware.harness.allocator import allocator
from kernelswarm.schemas import Pool

POOL = Pool(name="here", platform="cpu", languages=("cpp",))

SCRIPT = """
import resource, sys, torch
sizes = [(2048, 1024), (512, 1024), (4096, 1024)]
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def call():
    return [torch.empty(*size).fill_(1.0) + 1 for size in sizes]
output = None
for _ in range(3):
    output = call()
before = faults()
for turn in range(20):
    # A little smaller every time, as outputs are whose size follows the data.
    sizes[2] = (4096 - turn, 1024)
    output = call()
print(faults() - before, max(float(part.max()) for part in output))
"""

BATCHES = """
import resource, torch
def batch():
    return [torch.empty(1 << 15).fill_(2.0) for call in range(200)]
outputs = batch()
faulted = []
for _ in range(3):
    outputs = None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    outputs = batch()
    faulted.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(faulted[-1], float(outputs[-1].max()))
"""


def _pages_faulted(environment, script=SCRIPT):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    return [float(word) for word in done.stdout.split()]


def test_a_call_faults_nothing_in_once_it_has_run(tmp_path):
    faulted, largest = _pages_faulted({"PATH": "/usr/bin:/bin", **allocator(POOL, tmp_path, {})})
    assert largest == 2.0
    assert faulted < 20 * 10


def test_a_batch_faults_nothing_in_where_the_one_before_it_was_let_go(tmp_path):
    """Outputs of 128 KiB, all of a batch at once: 32 pages each would be given back to the kernel."""
    faulted, largest = _pages_faulted({"PATH": "/usr/bin:/bin", **allocator(POOL, tmp_path, {})}, BATCHES)
    assert largest == 2.0
    assert faulted < 200


def test_what_the_user_chose_stays(tmp_path):
    assert allocator(POOL, tmp_path, {"LD_PRELOAD": "/usr/lib/libjemalloc.so"}) == {}


def test_without_a_compiler_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert allocator(POOL, tmp_path, {}) == {}
