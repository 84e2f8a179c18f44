"""The CSV file: what is written is read again, and nothing else is taken for it."""

import csv
from pathlib import Path

import pytest
from benched import row, task

from kernelswarm.bench.runs import Outcome, ResultsTable
from kernelswarm.bench.runs.result_files import opened_alone
from kernelswarm.bench.runs.row import COLUMNS, changes
from kernelswarm.schemas import InputError


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "results" / "level1.csv"
    refused = row(
        10,
        verdict=Outcome.refused,
        cause="refused: memory",
        detail='too large, "much"',
        eager_low=None,
        compile_low=None,
    )
    with opened_alone(path, ResultsTable) as results:
        for entry in (refused, row(2, at="2026-11-21"), row(2, subset="2"), row(3, verdict=Outcome.running)):
            results.put(entry)
    again = ResultsTable(path)
    assert again.finished([task(2), task(10), task(3), task(4)]) == [row(2, at="2026-11-21"), refused]
    running = again.get(task(3))
    assert running is not None and running.verdict is Outcome.running
    assert again.get(task(2, subset="2")) == row(2, subset="2")
    with path.open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert tuple(cells[0]) == COLUMNS and [cell["number"] for cell in cells] == ["2", "3", "10", "2"]


def test_a_row_of_another_version_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text("level,number,problem,verdict,budget,unheard\n1,2,2_Problem,correct,3,x\n")
    entry = ResultsTable(path).get(task(2))  # the column `subset` was called `level`
    assert entry is not None and entry.budget == 3 and entry.eager_low is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "no column 'number'"),
        ("level,number,problem,verdict\n1,2,2_Problem,fine\n", "line 2"),
        ("level,number,problem,verdict\n1,two,2_Problem,correct\n", "line 2"),
    ],
)
def test_another_file_is_not_written_over(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message), opened_alone(path, ResultsTable):
        pass
    assert path.read_text() == text


def test_two_commands_do_not_write_one_file(tmp_path: Path) -> None:
    with opened_alone(tmp_path / "a.csv", ResultsTable):
        with (
            pytest.raises(InputError, match="another command is writing"),
            opened_alone(tmp_path / "a.csv", ResultsTable),
        ):
            pass
        with opened_alone(tmp_path / "b.csv", ResultsTable):
            pass
    with opened_alone(tmp_path / "a.csv", ResultsTable):
        pass


def test_what_changed_is_named() -> None:
    assert changes(row(), row(verdict=Outcome.refused, session="x", at="later")) == []
    assert changes(row(), row(budget=4, problem_sha256="f")) == ["its file", "the budget"]
