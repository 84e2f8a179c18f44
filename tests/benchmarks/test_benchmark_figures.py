"""The figures that the benchmarks print, from made-up results: no search is run here."""

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def benchmarks_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As Python does it for a script: its own folder first."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    sys.modules.pop("_shared", None)
    sys.modules.pop("_cpp_math_harness", None)


def result(problem: str, *, win: bool, eager: float, best: float, kernel: float, low: float) -> dict[str, Any]:
    return {
        "problem": problem,
        "session": f"{problem}-abcde",
        "win": win,
        "reason": "budget",
        "against": "compile",
        "times_ms": {"eager": eager, "compile": best, "max_autotune": best, "candidate": kernel},
        "speedup": {"median": best / kernel, "low": low, "high": 2 * best / kernel},
        "roofline_fraction": 0.5,
    }


def nothing_found(problem: str) -> dict[str, Any]:
    return {"problem": problem, "win": False, "reason": "exhausted", "times_ms": {}, "speedup": None}


def test_geometric_means_count_a_slower_kernel_below_one_and_no_kernel_as_one() -> None:
    kernels = load("kernels")
    facts = kernels.summary(
        [
            result("fast", win=True, eager=16, best=8, kernel=2, low=3.9),
            result("slow", win=False, eager=1, best=1, kernel=4, low=0.2),
            nothing_found("none"),
        ]
    )
    assert facts["geometric_mean_over_eager"] == pytest.approx((8 * 0.25 * 1) ** (1 / 3))
    assert facts["geometric_mean_over_best"] == pytest.approx((4 * 0.25 * 1) ** (1 / 3))
    assert facts["wins"] == 1
    assert facts["wins_whose_interval_touches_1"] == []


def test_a_win_whose_interval_touches_one_is_named() -> None:
    facts = load("kernels").summary([result("doubtful", win=True, eager=4, best=2, kernel=1, low=1.0)])
    assert facts["wins_whose_interval_touches_1"] == ["doubtful"]


def test_the_table_has_a_cell_for_every_column_whatever_came_out() -> None:
    kernels = load("kernels")
    for outcome in (result("fast", win=True, eager=16, best=8, kernel=2, low=3.9), nothing_found("none"), None):
        entry = {"result": outcome, "error": "" if outcome else "optimize x.py ended with status 1"}
        assert len(kernels.row("name", entry)) == len(kernels.HEADER)


def test_what_is_kept_is_not_searched_again_and_an_error_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = load("kernels")
    searched: list[str] = []

    def fake(problem: Path, *arguments: object) -> dict[str, Any]:
        searched.append(problem.stem)
        if len(searched) == 1:
            raise kernels.BenchmarkError("it broke")
        return result(problem.stem, win=True, eager=2, best=2, kernel=1, low=1.5)

    monkeypatch.setattr(kernels, "search", fake)
    problems = kernels.chosen("rmsnorm,softmax")
    path = tmp_path / "kernels.json"
    options = argparse.Namespace(budget=4, seed=0, pool="cpu", home=None, results=path, fresh=False)
    first = kernels.run(problems, options)
    assert first["entries"]["rmsnorm"]["error"] == "it broke"
    kernels.run(problems, options)
    assert searched == ["rmsnorm", "softmax", "rmsnorm"]
    options.budget = 8
    kernels.run(problems, options)
    assert searched[3:] == ["rmsnorm", "softmax"], "another budget is another result"
    assert json.loads(path.read_text())["entries"]["softmax"]["budget"] == 8


def test_an_unknown_problem_is_refused_by_name() -> None:
    kernels = load("kernels")
    with pytest.raises(Exception, match="no problem named nosuch"):
        kernels.chosen("rmsnorm,nosuch")


EVENTS = [
    ("", "session.opened.v1", 0),
    ("a", "node.planned.v1", 10),
    ("a", "candidate.proposed.v1", 11),
    ("a", "candidate.compiled.v1", 12),
    ("a", "candidate.profiled.v1", 14),
    ("a", "candidate.profiled.v1", 60),  # the confirmation: the same candidate, counted once
    ("b", "node.planned.v1", 10),
    ("b", "candidate.proposed.v1", 12),
    ("b", "candidate.compilation_failed.v1", 16),
    ("c", "node.planned.v1", 12),
    ("c", "candidate.synthesis_failed.v1", 13),  # no candidate, so none evaluated
    ("d", "candidate.proposed.v1", 14),  # under way when the session ended
    ("", "session.closed.v1", 70),
]


def test_the_search_rate_counts_every_ended_candidate_once() -> None:
    search = load("search")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE events (session VARCHAR, node VARCHAR, tag VARCHAR, at_ns BIGINT)")
    connection.executemany(
        "INSERT INTO events VALUES ('s', ?, ?, ?)", [(node, tag, second * 10**9) for node, tag, second in EVENTS]
    )
    cursor = connection.execute(search.QUERY.format(session="s"))
    names = [column[0] for column in cursor.description]
    facts = search.rates([dict(zip(names, row, strict=True)) for row in cursor.fetchall()])
    connection.close()
    assert facts["by_end"] == {"candidate.profiled.v1": 1, "candidate.compilation_failed.v1": 1}
    assert facts["candidates_per_minute"] == pytest.approx(60 * 2 / (16 - 10))
    assert facts["candidates_per_minute_of_session"] == pytest.approx(60 * 2 / 70)


def test_no_ended_candidate_is_said_and_not_divided_by() -> None:
    search = load("search")
    with pytest.raises(search.BenchmarkError, match="no candidate came to an end"):
        search.rates([])


def test_the_demo_copy_leaves_out_what_git_ignores(tmp_path: Path) -> None:
    load("demo").copy_tree(tmp_path)
    assert (tmp_path / "problems" / "rmsnorm.py").is_file()
    assert (tmp_path / "pyproject.toml").is_file()
    assert not list(tmp_path.rglob("__pycache__"))
    assert not (tmp_path / ".git").exists()


def test_machine_facts_name_no_host() -> None:
    import platform

    facts = load("_shared").machine()
    assert platform.node() not in json.dumps(facts)
    assert facts["cores"] >= 1


def test_the_page_of_the_math_functions_is_made_from_their_results() -> None:
    measured = json.loads((FOLDER / "results" / "cpp_math.json").read_text())
    page = (FOLDER.parent / "docs" / "cpp-math.md").read_text()
    assert page == load("cpp_math").page(measured) + "\n"


def test_measured_errors_of_the_math_functions_stay_within_the_table() -> None:
    measured = json.loads((FOLDER / "results" / "cpp_math.json").read_text())["functions"]
    table = load("cpp_math").TABLE
    assert {key.split("/")[1] for key in measured} == {"accurate", "fast", "libm", "short"}
    for key, entry in measured.items():
        name, level = key.split("/")
        for target, error in entry["errors"].items():
            assert error["ulp"] <= table[name, level].ulp, (key, target)
            assert error["lost"] == error["wrong_special"] == 0, (key, target)
