"""docs/results.md is what the command writes, and its figures are those of the result files."""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = (
    "results_page",
    "_results_authors",
    "_results_cpu",
    "_results_drafts",
    "_results_gpu",
    "_results_markdown",
    "_shared",
    "first_drafts",
)


@pytest.fixture
def results_page(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script, imported as Python does it: its own folder first."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in OURS:
        sys.modules.pop(name, None)
    yield importlib.import_module("results_page")
    for name in OURS:
        sys.modules.pop(name, None)


def test_the_committed_page_is_what_the_command_writes(results_page: ModuleType) -> None:
    committed = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert committed == results_page.page(), "run python benchmarks/results_page.py --write"


def test_check_fails_on_another_page_and_write_repairs_it(
    results_page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.md"

    def status(action: str) -> int:
        monkeypatch.setattr(sys, "argv", ["results_page.py", action, "--page", str(path)])
        return int(results_page.main())

    assert status("--check") == 1, "there is no page yet"
    assert "--write" in capsys.readouterr().err
    assert status("--write") == 0
    assert status("--check") == 0
    path.write_text(path.read_text(encoding="utf-8").replace("1.10x", "2.10x"), encoding="utf-8")
    assert status("--check") == 1


def test_lines_are_at_most_a_hundred_characters(results_page: ModuleType) -> None:
    assert [line for line in results_page.page().splitlines() if len(line) > 100] == []


def test_a_problem_without_an_interval_counts_as_a_miss_of_its_level(results_page: ModuleType) -> None:
    gpu = sys.modules["_results_gpu"]
    rows = [{"eager_low": low} for low in ("", "0.9", "1.0", "1.2", "1.6", "2.5")]
    assert gpu.level_row(1, rows)[1:4] == ["3", "2", "1"]


def test_an_operator_counts_its_fastest_draft_against_the_fastest_baseline(results_page: ModuleType) -> None:
    gpu = sys.modules["_results_gpu"]
    samples = {"eager": [4.0], "compile": [3.0], "max_autotune": [2.0, 2.0, 9.0], "copy": [0.5], "a": [1.5], "b": [1.0]}
    entry = {"operator": "softmax", "dtype": "float32", "bytes": 10**9, "flops": 0.0}
    record = {"copy_gbps": 2000.0}
    row = gpu.operator_row({**entry, "samples_ms": samples, "candidates": {"a": {}, "b": {}}}, record)
    assert row[2:] == ["4.000", "3.000", "2.000", "1.000", "4.00x", "2.00x", "50.0", "50"]


def test_the_figures_of_the_readme_stand_on_the_page(results_page: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Results")[2].partition("##")[0]
    figures = set(re.findall(r"\d+\.\d+x?", section))
    assert len(figures) > 20
    assert {figure for figure in figures if figure not in results_page.page()} == set()


def test_outside_authors_stand_beside_the_generator_by_pool(results_page: ModuleType, tmp_path: Path) -> None:
    rows = {
        "scan": {"generator_speedup": 1.0, "outside_speedup": 3.0, "hand_ins": 4, "wrong_hand_ins": 1, "minutes": 7.5},
        "top": {"generator_speedup": 2.0, "outside_speedup": 1.0},
    }
    run = {
        "date": "2026-11-25",
        "machine": {"cores": 2, "processor": "P"},
        "versions": {"torch": "2", "triton": "3", "commit": "c"},
    }
    record = {**run, "rows": rows, "together_over_generator": 3**0.5, "outside_wins_largely": 1}
    authors = sys.modules["_results_authors"].authors
    (tmp_path / "authors.json").write_text(json.dumps(record), encoding="utf-8")
    assert "| scan | 1.00x | 3.00x | 3.00x | 4 | 1 | 7.5 |\n| top | 2.00x | 1.00x | 1.00x |" in authors(tmp_path)
    assert "Of 4 hand-ins that are known, 1 was wrong." in " ".join(authors(tmp_path).split())
    assert "H100" not in authors(tmp_path)
    (tmp_path / "authors_h100.json").write_text(json.dumps({**record, "device": "one H100"}), encoding="utf-8")
    assert "Run: 2026-11-25, commit c, one H100, 2 cores of P" in authors(tmp_path)


def test_bare_kernels_stand_beside_those_of_sessions(results_page: ModuleType, tmp_path: Path) -> None:
    judged = {"median": 1.2, "low": 0.9, "high": 1.6}
    won = {"verdict": "correct", "speedup": judged, "ordinary_speedup": {"median": 2.0, "low": 1.5, "high": 3.0}}
    doubtful = {"verdict": "correct", "speedup": judged, "ordinary_speedup": None}
    refused = {"verdict": "wrong_numbers", "speedup": None, "ordinary_speedup": None}
    claimed = {"is_right": True, "eager_ms": 6.0, "kernel_ms": 2.0}
    record = {
        "date": "2026-11-26",
        "machine": {"cores": 2, "processor": "P"},
        "versions": {"torch": "2", "commit": "c"},
        "rows": {
            "masked_softmax": {"claimed": claimed, "bare": refused, "through": won},
            "rmsnorm": {"claimed": claimed, "bare": doubtful, "through": won},
            "swiglu": {"claimed": claimed, "bare": refused, "through": doubtful},
        },
    }
    (tmp_path / "bare.json").write_text(json.dumps(record), encoding="utf-8")
    section = sys.modules["_results_authors"].bare(tmp_path)
    assert "| masked_softmax | 3.00x | wrong numbers | 2.00x |" in section
    assert "| rmsnorm | 3.00x | 1.20x, no win | 2.00x |" in section
    words = " ".join(section.split())
    assert "Verified wins: 0 bare, 2 through Kernelswarm." in words and "they are 1.20x, 1.20x and 1.20x" in words
