"""The format ``parquet``: every view and the events themselves, each a file, for whatever reads Parquet."""

from pathlib import Path

import duckdb

from ..database import explained
from ..views import VIEWS
from .folder import file_entry
from .manifest import FileEntry

TABLES = ("events", *VIEWS)


def write_parquet(log: Path, folder: Path) -> list[FileEntry]:
    """Write the tables of the log at ``log``, which nobody has open, into ``folder``."""
    with explained(folder), duckdb.connect(log, read_only=True, config={"memory_limit": "2GB"}) as con:
        con.execute("SET allowed_directories = [?]", [str(folder)])
        con.execute("SET enable_external_access = false")
        return [_write(con, name, folder) for name in TABLES]


def _write(con: duckdb.DuckDBPyConnection, name: str, folder: Path) -> FileEntry:
    path = folder / f"{name}.parquet"
    columns = [(row[0], row[1]) for row in con.execute(f"DESCRIBE {name}").fetchall()]
    # Parquet's JSON type is a stranger to most readers.
    spelled = ", ".join(
        f'"{column}"::{kind.replace("JSON", "VARCHAR")} AS "{column}"' if "JSON" in kind else f'"{column}"'
        for column, kind in columns
    )
    order = next(known for known in ("seq", "at_ns", "session", columns[0][0]) if known in dict(columns))
    con.execute(
        f"COPY (SELECT {spelled} FROM {name} ORDER BY {order}) TO '{str(path).replace(chr(39), chr(39) * 2)}' "
        "(FORMAT parquet, COMPRESSION zstd)"
    )
    rows = con.execute(f"SELECT count(*) FROM {name}").fetchone()
    return file_entry(path, int(rows[0]) if rows else 0)
