"""Random graphs against eager; the seeds are fixed, so that a failure is the same for everybody."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzz.py")
COUNT = 12


@pytest.mark.parametrize("first", [0, pytest.param(COUNT, marks=pytest.mark.thorough)])
def test_random_graphs_equal_eager(tmp_path, first):
    results = tmp_path / "results.json"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(results), str(first), str(COUNT)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert results.exists(), done.stderr[-3000:]
    texts = json.loads(results.read_text())
    assert len(texts) == COUNT
    assert {seed: text for seed, text in texts.items() if text} == {}
