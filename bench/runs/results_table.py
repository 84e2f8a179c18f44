"""The CSV file of results: read whole, written whole, by one command at a time."""

import csv
from collections.abc import Sequence
from pathlib import Path

from ...schemas import InputError
from .benchmark import Task
from .result_files import write_csv
from .row import COLUMNS, Key, Outcome, Row, from_cells, to_cells


class ResultsTable:
    """Rows by problem, in the order of subsets and numbers. Every change is on the disk when the call returns."""

    def __init__(self, path: Path) -> None:
        """Reads ``path`` if it is there.

        Raises:
            InputError: it cannot be read, or is no such file.
        """
        self.path = path
        self._rows: dict[Key, Row] = {row.key: row for row in _read(path)}

    def get(self, task: Task) -> Row | None:
        """The row of ``task``, also one that is under way."""
        return self._rows.get(task.key)

    def finished(self, tasks: Sequence[Task]) -> list[Row]:
        """The rows of those of ``tasks`` that were brought to an end, in their order."""
        rows = (self.get(task) for task in tasks)
        return [row for row in rows if row is not None and row.verdict is not Outcome.running]

    def put(self, row: Row) -> None:
        """Write ``row`` in the place of the one that its problem had.

        Raises:
            InputError: the file cannot be written.
        """
        self._rows[row.key] = row
        rows = sorted(self._rows.values(), key=lambda row: (row.subset, row.number, row.problem))
        write_csv(self.path, COLUMNS, map(to_cells, rows))


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = {"number", "problem", "verdict"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(f"it has no column {sorted(missing)[0]!r}")
            return [_row(cells, reader.line_num) for cells in reader]
    except (OSError, UnicodeDecodeError, csv.Error, InputError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"{path} is no file of benchmark results ({reason}): choose another file with --out"
        ) from error


def _row(cells: dict[str | None, str], line: int) -> Row:
    try:
        return from_cells(cells)
    except InputError as error:
        raise InputError(f"line {line}: {error}") from error
