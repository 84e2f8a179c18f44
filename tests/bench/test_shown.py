"""What people see: a line for each problem, the dashboard on a terminal, the tables at the end, help."""

from pathlib import Path

import pytest
from benched import report, row, task
from rich.console import Console

from kernelswarm.bench.runs import Outcome, Progress
from kernelswarm.bench.runs.markdown import markdown
from kernelswarm.bench.runs.row import COMPILE_LATE
from kernelswarm.cli.display import bench_summary
from kernelswarm.cli.display.bench_live import BenchDashboard, Lines, left_text, row_line
from kernelswarm.cli.main import run

MISSING = {"eager_speedup": None, "eager_low": None, "compile_speedup": None, "compile_low": None}
REFUSED = row(3, verdict=Outcome.refused, cause="refused: memory", seconds=2.0, **MISSING)
HALF_WAY = Progress(done=3, total=20, fast=2, left_s=700.0)


def test_a_finished_problem_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.finished(row(19, seconds=41.2), HALF_WAY)
    lines.finished(REFUSED, HALF_WAY)
    assert capsys.readouterr().err.splitlines() == [
        "[ 3/20] 19_Problem  1.20x eager (1.10 to 1.30), 1.05x torch.compile (0.98 to 1.10)  41 s  "
        "fast_1 0.67, about 12 min left",
        "[ 3/20] 3_Problem  refused: memory  2 s  fast_1 0.67, about 12 min left",
    ]


def test_what_nothing_compiles_is_told_once() -> None:
    assert "nothing compiles it" in row_line(row(compile_baseline="eager"), HALF_WAY)
    late = row(compile_baseline="", cause=COMPILE_LATE, compile_speedup=None, compile_low=None, seconds=210.0)
    assert "1.20x eager (1.10 to 1.30), torch.compile was still being compiled  210 s" in row_line(late, HALF_WAY)


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.0, "about 12 s left"), (3000.0, "about 50 min left"), (9000.0, "about 2.5 h left")]
)
def test_the_rest_is_told_in_its_unit(seconds: float, text: str) -> None:
    assert left_text(seconds) == text


def test_the_dashboard_shows_the_run_above_the_search() -> None:
    dashboard = BenchDashboard("KernelBench", lambda: 0.0)
    dashboard.began(task(19, name="19_ReLU"), HALF_WAY).notice("validating 19_relu")
    console = Console(width=150)
    with console.capture() as capture:
        console.print(dashboard)
    head, search = capture.get().splitlines()
    assert head.startswith("19_ReLU") and "3/20 done, fast_1 0.67, about 12 min left" in head
    assert "validating 19_relu" in search


def test_problems_side_by_side_have_a_line_each() -> None:
    dashboard = BenchDashboard("KernelBench", lambda: 0.0)
    for number, name in ((19, "19_ReLU"), (20, "20_LeakyReLU")):
        dashboard.began(task(number, name=name), HALF_WAY).notice(f"validating {name.lower()}")
    console = Console(width=150)
    with console.capture() as capture:
        console.print(dashboard)
    head, *lines = capture.get().splitlines()
    assert head.startswith("KernelBench") and "3/20 done" in head
    assert [line.split() for line in lines] == [
        ["19_ReLU", "validating", "19_relu"],
        ["20_LeakyReLU", "validating", "20_leakyrelu"],
    ]


def test_the_tables_say_what_share_and_of_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(1, precision="float32", session="one-abcde", node="n002"), REFUSED]
    bench_summary.print_report(report(rows, problems=4, level="2"))
    text = capsys.readouterr().out
    assert "KernelBench level 2 on pool cpu, 2 of 4 problems, at matched precision (float32)" in text
    assert "of the 2 that are done; 2 left" in text
    cells = {line.split("  ")[0].strip(): line.split() for line in text.splitlines()}
    assert cells["eager"] == ["eager", "0.50", "(1)", "0.00", "(0)", "0.00", "(0)", "1.10x"]
    assert cells["best compile"][2:4] == ["0.50", "(1)"]
    assert cells["refused: memory"][-2:] == ["1", "3_Problem"]
    assert "kernelswarm show one-abcde --node n002 --source" in text


def test_the_markdown_table_has_every_time_and_the_misses_by_cause() -> None:
    times = {"eager_ms": 2.0, "compile_ms": 1.5, "max_autotune_ms": 1.25, "kernel_ms": 1.19}
    page = markdown(report([row(1, **times, roofline_fraction=0.713), REFUSED], problems=3))
    assert page.startswith("# KernelBench level 1 on pool cpu\n\n2 of 3 problems are done.")
    line = "| 1/1_Problem | correct | 2 | 1.5 | 1.25 | 1.19 | 1.05x (0.98 to 1.10) | 71% |  |"
    assert line in page and "| refused: memory | 1 | 3_Problem |" in page
    assert "| the best baseline | 1.00x | 0 | 1 |" in page


def test_help_has_examples(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["bench", "kernelbench", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Examples" in shown and "kernelswarm bench kernelbench KernelBench --level 1" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "0"], "budget 0"),
        (["--minutes-per-problem", "0"], "minutes per problem 0"),
        (["--level", "7"], "no level 7"),
        (["--problems", "33-"], "names no problem"),
        (["--at-once", "0"], "0 problems at once"),
        (["--pool", "nowhere"], "no pool is called"),
        (["--no-workers"], "needs --nats"),
        (["--out", "{folder}"], "is a folder"),
    ],
)
def test_what_cannot_be_used_costs_one_sentence(
    options: list[str],
    message: str,
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KERNELSWARM_HOME", str(tmp_path))
    given = [option.format(folder=tmp_path) for option in options]
    assert run(["bench", "kernelbench", str(checkout), *given]) == 2
    assert message in capsys.readouterr().err
