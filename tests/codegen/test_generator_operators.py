"""Generated candidates against eager PyTorch: one candidate per operator, right for every shape it is given."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from case_names import OPERATORS

SCRIPT = Path(__file__).with_name("generated.py")
FUSED = {"rmsnorm": 1, "layernorm_and_input": 1, "softmax": 1, "cross_entropy": 1, "rotary": 1, "mapid": 1}
"""How many kernels an operator becomes."""
NAMES = [*OPERATORS, "module"]
ALWAYS = {*FUSED, *OPERATORS[::3], "module"}
"""Compiling takes a second each."""


@pytest.fixture(scope="module")
def report(tmp_path_factory, request):
    """The operators that are asked for, compiled and compared in one child process."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    folder = tmp_path_factory.mktemp("operators")
    results = folder / "results.json"
    here = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    names = sorted({*ALWAYS, *(item.callspec.params["name"] for item in here)})
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(results), *names],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert results.exists(), done.stderr[-3000:]
    return json.loads(results.read_text())


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.thorough) for name in NAMES],
)
def test_candidate_equals_eager(report, name):
    assert report[name]["differences"] == []
    assert report[name]["kernels"] > 0


@pytest.mark.parametrize(("name", "kernels"), FUSED.items())
def test_fuses_into(report, name, kernels):
    assert report[name]["kernels"] == kernels
