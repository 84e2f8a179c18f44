"""SOL-ExecBench's layout: what becomes of definitions and workloads, and the score."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from executed import module_of

from kernelswarm.bench.runs import Measured, Task
from kernelswarm.bench.sol_execbench import SolExecBench
from kernelswarm.schemas import InputError, ProblemError

REFERENCE = """
import torch

def draw(sizes, device):
    return {"index": torch.randint(0, sizes["rows"], (sizes["pairs"],), device=device)}

@torch.no_grad()
def run(x, norm_weight, index, table, eps):
    return (x * norm_weight + eps)[index] + table.float()

if __name__ == "__main__":
    inputs = [1, 2]
"""
AXES = {
    "rows": {"type": "var"},
    "cols": {"type": "const", "value": 8},
    "pairs": {"type": "expr", "expression": "half * 2"},
    "half": {"type": "expr", "expression": "(rows - 1) // 2"},
}
INPUTS = {
    "x": {"shape": ["rows", "cols"], "dtype": "float32"},
    "norm_weight": {"shape": ["cols"], "dtype": "float32"},
    "index": {"shape": ["pairs"], "dtype": "int64"},
    "table": {"shape": [1, "cols"], "dtype": "int32"},
    "eps": {"shape": None, "dtype": "float32"},
}


def workload(rows: int, eps: float = 1e-6) -> dict[str, Any]:
    sources: dict[str, Any] = {name: {"type": "random"} for name in ("x", "norm_weight")}
    sources["index"] = {"type": "custom"}
    sources["table"] = {"type": "safetensors", "path": "blob/tables.safetensors", "tensor_key": "table"}
    return {"uuid": str(rows), "axes": {"rows": rows}, "inputs": sources | {"eps": {"type": "scalar", "value": eps}}}


def write(folder: Path, workloads: list[dict[str, Any]], **changes: Any) -> Path:
    """A problem in ``folder``."""
    folder.mkdir(parents=True)
    definition = {"name": folder.name, "axes": AXES, "inputs": INPUTS, "outputs": {}, "reference": REFERENCE}
    definition |= {"custom_inputs_entrypoint": "draw"} | changes
    (folder / "definition.json").write_text(json.dumps(definition))
    (folder / "workload.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in workloads))
    return folder


def write_table(path: Path) -> None:
    """One row of integers in safetensors' format."""
    data = torch.arange(8, dtype=torch.int32).numpy().tobytes()
    header = json.dumps({"table": {"dtype": "I32", "shape": [1, 8], "data_offsets": [0, len(data)]}}).encode()
    path.parent.mkdir()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Two categories with a problem each, and one that asks for files that are not there."""
    data = tmp_path / "data" / "benchmark"
    write(data / "L1" / "002_gather", [workload(rows, 1e-6 * rows) for rows in (33, 5, 17, 9)])
    write(data / "L1" / "001_broken", [workload(5)], reference="def go(): pass")
    write(data / "Quant" / "001_gather", [workload(5)])
    write_table(data / "L1" / "blob" / "tables.safetensors")
    return tmp_path


def tasks(root: Path, **choices: str) -> list[Task]:
    benchmark = SolExecBench()
    return benchmark.tasks(root, benchmark.resolved(choices))


def test_problems_are_found_by_category_and_number(checkout: Path) -> None:
    listed = [(task.subset, task.number, task.name) for task in tasks(checkout)]
    assert listed == [("L1", 1, "001_broken"), ("L1", 2, "002_gather"), ("Quant", 1, "001_gather")]
    assert [task.name for task in tasks(checkout, category="Quant")] == ["001_gather"]
    assert tasks(checkout / "data" / "benchmark" / "L1" / "002_gather")[0].number == 2
    for root, choices, message in (
        (checkout / "nowhere", {}, "no folder"),
        (checkout, {"category": "L9"}, "no category L9; choose one of L1, Quant"),
        (checkout, {"timed": "many"}, "timed 'many'"),
        (checkout / "data" / "benchmark" / "L1" / "blob", {}, "download_data.sh"),
    ):
        with pytest.raises(InputError, match=message):
            tasks(root, **choices)


def test_every_workload_is_a_shape_and_inputs_come_from_where_it_says(checkout: Path) -> None:
    module = module_of(tasks(checkout, category="L1", timed="2")[1].load().source)
    assert set(module.shapes) == {"rows=33", "rows=5", "rows=17", "rows=9"}
    assert list(module.timed) == ["rows=5", "rows=33"] == list(module.shapes)[:2]
    x, weight, index, table, eps = module.inputs(torch.Generator().manual_seed(0), **module.shapes["rows=17"])
    assert x.shape == (17, 8) and bool((weight == 1).all()) and index.shape == (16,) and eps == pytest.approx(17e-6)
    assert table.tolist() == [list(range(8))]
    assert module.reference(x, weight, index, table, eps).shape == (16, 8)
    assert module.published_tolerance["rows=17"] == {"atol": 0.01, "rtol": 0.01, "share": 0.99}


def test_one_timed_workload_is_the_middle_one(checkout: Path) -> None:
    module = module_of(tasks(checkout, category="L1")[1].load().source)
    assert list(module.timed) == ["rows=17"] and next(iter(module.shapes)) == "rows=17"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": "def go(): pass"}, "lacks the function `run`"),
        ({"reference": "def run(x: return"}, "is not Python"),
        ({"reference": REFERENCE + "shapes = 3\n"}, "a name of its own"),
        ({"axes": AXES | {"half": {"type": "expr", "expression": "open('x')"}}}, "cannot be computed"),
        ({"axes": AXES | {"half": {"type": "expr", "expression": "9 ** 9 ** 9"}}}, "cannot be computed"),
        ({"axes": AXES | {"half": {"type": "expr", "expression": "pairs"}}}, "made of one another"),
        ({"axes": AXES | {"rows2": {"type": "var"}}}, "how large axis rows2 is"),
        ({"inputs": INPUTS | {"x": {"shape": [4], "dtype": "float4_e2m1fn_x2"}}}, "float4_e2m1fn_x2, which neither"),
        ({"custom_inputs_entrypoint": None}, "names no function"),
        ({"inputs": 3}, "no definition of SOL-ExecBench"),
    ],
)
def test_what_cannot_be_a_problem_is_a_sentence(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = write(tmp_path / "p", [workload(5)], **changes)
    write_table(folder / "blob" / "tables.safetensors")
    with pytest.raises(ProblemError, match=message):
        tasks(folder)[0].load()


@pytest.mark.parametrize("content", [None, b"", struct.pack("<Q", 1 << 60), struct.pack("<Q", 2) + b"{}"])
def test_a_data_file_that_is_missing_or_torn_is_a_sentence(tmp_path: Path, content: bytes | None) -> None:
    folder = write(tmp_path / "p", [workload(5)])
    if content is not None:
        (folder / "blob").mkdir()
        (folder / "blob" / "tables.safetensors").write_bytes(content)
    with pytest.raises(ProblemError, match=r"tables\.safetensors"):
        tasks(folder)[0].load()


def test_the_score_is_the_distance_to_the_limit() -> None:
    score = SolExecBench().score
    first, even, at_limit = Measured((4.0, 3.0), 2.0, 0.5), Measured((2.0,), 2.0, 0.5), Measured((1.0,), 1.0, 1.0)
    assert score([first]) == pytest.approx(1 / (1 + (2 - 1) / (3 - 1)))
    assert (score([even]), score([at_limit]), score([even, at_limit])) == (0.5, 1.0, 0.75)
    assert score([Measured((1.0,), 1.0, None)]) is None
