"""The kernels do cheat: an evaluator of the usual kind accepts what kernelswarm rejects."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cheats import FOLDER, SAMPLE, SUITES, Expected

ASKED = {
    kernel: (name, expected)
    for name, suite in SUITES.items()
    for kernel, expected in suite.expected.items()
    if expected.naive is not None and suite.pool == "cpu"
}
SMALL = {"rows", "small"}
"""Problems of which a hundred calls take no time."""
SOME = {*SAMPLE, *[kernel for kernel, (suite, _) in ASKED.items() if suite in SMALL][::6]}
EACH = [
    pytest.param(kernel, expected, id=kernel, marks=() if kernel in SOME else pytest.mark.thorough)
    for kernel, (_, expected) in ASKED.items()
]


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    here = [item for item in request.session.items if item.path == request.path]
    selected = {item.callspec.params["kernel"] for item in here if isinstance(item, pytest.Function)}
    groups: list[str] = []
    for name, suite in SUITES.items():
        names = [kernel for kernel, (suite_name, _) in ASKED.items() if suite_name == name and kernel in selected]
        kernels = [str(suite.path(kernel)) for kernel in names]
        groups += [*(["--"] if groups else []), str(suite.problem), *kernels] if kernels else []
    done = subprocess.run(
        [sys.executable, FOLDER / "naive.py", *groups],
        cwd=tmp_path_factory.mktemp("naive"),
        capture_output=True,
        text=True,
        timeout=600.0,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {Path(line["candidate"]).stem: line for line in lines}


@pytest.mark.parametrize(("kernel", "expected"), EACH)
def test_a_naive_evaluator_takes_it(evaluations: dict[str, dict[str, Any]], kernel: str, expected: Expected) -> None:
    assert evaluations[kernel]["accepted"] is expected.naive, evaluations[kernel]
    if expected.free:
        assert evaluations[kernel]["ms"] <= 0, "its clock was meant to show nothing"
