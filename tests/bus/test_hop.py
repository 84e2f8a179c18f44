"""The benchmark of the bus runs and says what it promises; how fast it is, is not a test's business."""

import json
import subprocess
import sys
from pathlib import Path

from waiting import LONG_S

import kernelswarm

HOP = Path(kernelswarm.__file__).with_name("benchmarks") / "hop.py"


def test_a_short_run_reports_latency_and_throughput():
    command = [sys.executable, str(HOP), "--rounds", "20", "--events", "100", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)
    found = json.loads(ran.stdout)
    assert found["rounds"] == 20
    assert 0 < found["hop_ms"]["p50"] <= found["hop_ms"]["p99"]
    assert found["stored_per_s"] > 0 and found["ratio_p50"] > 0
    assert ran.returncode == (0 if found["within_limit"] else 1)
