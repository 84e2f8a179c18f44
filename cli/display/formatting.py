"""Rows of the log as text: CSV and JSON that lose nothing, cells that people read. Pure."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...store import Table


_QUOTED = frozenset(',"\r\n')


def as_csv(table: "Table") -> str:
    """RFC 4180 with a header. NULL is nothing, an empty text is ``""``, a list or a struct is its JSON."""
    lines = [table.columns, *table.rows]
    return "".join(",".join(map(_csv_field, line)) + "\n" for line in lines)


def as_json(table: "Table") -> str:
    """An array with one object for each row, a row a line; a column's second namesake becomes ``name_1``."""
    names = unique(table.columns)
    rows = [_dumped(dict(zip(names, row, strict=True))) for row in table.rows]
    return "[" + ",\n ".join(rows) + "]\n"


def cell(value: Any) -> str:
    """A value for people; a float at six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return _text(value)


def unique(names: Sequence[str]) -> list[str]:
    """The names, later namesakes numbered: an object cannot hold one name twice."""
    unique_names: list[str] = []
    for name in names:
        new, number = name, 0
        while new in unique_names or (number and new in names):
            number += 1
            new = f"{name}_{number}"
        unique_names.append(new)
    return unique_names


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = _text(value)
    if text and not _QUOTED & set(text) and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | dict):
        return _dumped(value)
    return repr(value) if isinstance(value, float) else str(value)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
