"""The CSV file of results: every task's rows are on the disk when they are put there."""

import csv
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...schemas import InputError
from ..runs.result_files import cannot_write, write_csv
from .row import COLUMNS, Row, to_cells
from .task import Task

Key = tuple[str, str, str, str]
"""List, name, dtype, language."""


class ResultsTable:
    """Rows by task and language, in the order in which they were put."""

    def __init__(self, path: Path) -> None:
        """Reads ``path`` if it is there.

        Raises:
            InputError: it cannot be read, or is no such file.
        """
        self.path = path
        self._rows: dict[Key, list[Row]] = {}
        for row in _read(path):
            self._rows.setdefault(_key(row), []).append(row)

    def rows(self, task: Task) -> list[Row]:
        """The rows of ``task``."""
        keys = ((task.list, task.name, task.dtype, language) for language in task.languages)
        return [row for key in keys for row in self._rows.get(key, ())]

    def put(self, rows: Sequence[Row]) -> None:
        """Write a task's ``rows`` in the place of those that it had in these languages.

        Raises:
            InputError: the file cannot be written.
        """
        keys = dict.fromkeys(map(_key, rows))
        is_new = not any(key in self._rows for key in keys)
        for key in keys:
            self._rows[key] = [row for row in rows if _key(row) == key]
        if is_new and self.path.exists():
            self._append(rows)
        else:
            kept = (to_cells(row) for key in sorted(self._rows) for row in self._rows[key])
            write_csv(self.path, COLUMNS, kept)

    def _append(self, rows: Sequence[Row]) -> None:
        try:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, COLUMNS, lineterminator="\n").writerows(map(to_cells, rows))
        except OSError as error:
            raise cannot_write(self.path, error) from error


def _key(row: Row) -> Key:
    return row.list, row.name, row.dtype, row.language


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            # A run that was killed may have left a line without its end.
            cells = [line for line in csv.DictReader(file) if None not in line.values()]
        return [msgspec.convert({k: v for k, v in line.items() if k in COLUMNS}, Row, strict=False) for line in cells]
    except (OSError, UnicodeDecodeError, csv.Error, msgspec.ValidationError) as error:
        raise InputError(f"{path} is no file of opinfo results ({error}): choose another file with --out") from error
