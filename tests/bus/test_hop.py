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
    report = json.loads(ran.stdout)
    assert report["rounds"] == 20
    assert 0 < report["hop_ms"]["p50"] <= report["hop_ms"]["p99"]
    assert report["stored_per_s"] > 0 and report["ratio_p50"] > 0
    assert ran.returncode == (0 if report["within_limit"] else 1)
