"""Triton kernels where indices need 64 bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from graphs import call, graph, last, source
from triton_texts import texts

HERE = Path(__file__).parent


def test_masks_count_in_64_bits_where_elements_do(tmp_path: Path) -> None:
    """In a process of its own: the interpreter replaces Triton's functions."""
    folders = os.pathsep.join([str(HERE), str(HERE.parent / "support")])
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, str(HERE / "triton_wide.py"), str(report)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": folders, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # What a program writes that has room for 512 elements, for 256 rows of 8, for one row.
    assert json.loads(report.read_text()) == {
        "flat": [512, True],
        "tiles": [2048, True],
        "rows": [2048, True],
        "rows_in_blocks": [8, True],
    }


@pytest.mark.parametrize("row", ["whole", "loop"])
def test_positions_have_64_bits_where_what_they_lead_to_lies_apart(row: str) -> None:
    across = graph(
        source("x", 32, 64),
        call("turned", "t.default", ("x",), 64, 32),
        call("sum", "sum.dim_IntList", ("turned", last(), True), 64, 1),
        call("div", "div.Tensor", ("turned", "sum"), 64, 32),
        outputs=["div"],
    )
    along = graph(
        source("x", "s0", 32),
        call("sum", "sum.dim_IntList", ("x", last(), True), "s0", 1),
        call("div", "div.Tensor", ("x", "sum"), "s0", 32),
        outputs=["div"],
    )

    for source_graph, is_wide in ((across, True), (along, False)):
        (text,) = texts(source_graph, row=row).values()
        lines = [line for line in text.splitlines() if "cols = " in line]
        assert lines and all(("tl.int64" in line) == is_wide for line in lines)
