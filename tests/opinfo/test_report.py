"""Shares, causes and the file of rows."""

from pathlib import Path

import pytest

from kernelswarm.bench.opinfo import Outcome, Row, Task, markdown
from kernelswarm.bench.opinfo.report import report_on
from kernelswarm.bench.opinfo.results_table import ResultsTable
from kernelswarm.bench.runs.result_files import opened_alone
from kernelswarm.schemas import InputError

TASK = Task("ops", "exp", "float32", ("cpp",), 2, "", "v1")


def row(captured: Outcome, other: Outcome = Outcome.none, cause: str = "", name: str = "exp", sample: int = 0) -> Row:
    return Row(
        list="ops",
        name=name,
        sample=sample,
        dtype="float32",
        language="cpp",
        captured=captured,
        other=other,
        cause=cause,
        versions="v1",
    )


ROWS = [
    row(Outcome.correct, Outcome.correct),
    row(Outcome.left, Outcome.wrong, "result 0 is off by 3.1, allowed 1e-06", name="sort"),
    row(Outcome.not_drafted, Outcome.not_drafted, "the reference changes `x`", name="cat"),
    row(Outcome.excluded, Outcome.none, "random: it draws numbers", name="rand"),
]


def test_shares_count_samples_that_have_an_answer() -> None:
    captured, other = report_on(ROWS, chosen=4, done=4, path="").shares
    assert (captured.samples, captured.right, captured.generated, captured.drafts) == (3, 2, 1, 2)
    assert (other.samples, other.right, other.drafts) == (3, 1, 2)
    assert captured.of_drafts == 1.0 and other.of_drafts == 0.5


def test_causes_leave_out_what_differs_among_samples() -> None:
    more = [*ROWS, row(Outcome.wrong, cause="result 1 is off by 0.2, allowed 2e-07", name="exp")]
    report = report_on(more, chosen=5, done=5, path="")
    assert [(cause.rows, cause.cause, cause.names) for cause in report.misses] == [
        (2, "result N is off by N, allowed N", ("sort", "exp")),
        (1, "the reference changes …", ("cat",)),
    ]
    assert [cause.names for cause in report.excluded] == [("rand",)]
    assert "| 1 | excluded | random: it draws numbers | rand |" in markdown(report)


def test_rows_come_back_as_they_were_put(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with opened_alone(path, ResultsTable) as table:
        table.put(ROWS[:1])
        table.put(ROWS[1:2])
        table.put([row(Outcome.wrong, sample=1)])
    kept = ResultsTable(path)
    assert kept.rows(TASK) == [row(Outcome.wrong, sample=1)]
    assert len(path.read_text().splitlines()) == 3


def test_a_line_without_its_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with opened_alone(path, ResultsTable) as table:
        table.put(ROWS[:1])
    path.write_text(path.read_text() + "ops,sort,0,flo")
    assert ResultsTable(path).rows(TASK) == ROWS[:1]


def test_two_commands_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    refused = pytest.raises(InputError, match="another command is writing")
    with opened_alone(path, ResultsTable), refused, opened_alone(path, ResultsTable):
        pass


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("list,name,sample,dtype,language,captured\nops,exp,0,float32,cpp,splendid\n")
    with pytest.raises(InputError, match="is no file of opinfo results"):
        ResultsTable(path)
