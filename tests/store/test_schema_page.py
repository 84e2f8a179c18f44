"""What is said about the schema is what the schema is."""

from pathlib import Path

import pytest

import kernelswarm
from kernelswarm.store import Log, run_sql
from kernelswarm.store.schema_page import page
from kernelswarm.store.views import VIEWS, columns, meaning

PAGE = Path(kernelswarm.__file__).parent / "docs" / "sql.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page().rstrip() + "\n", "python -m kernelswarm.store.schema_page > docs/sql.md"


@pytest.mark.parametrize("view", VIEWS)
async def test_every_column_is_described_in_the_file_and_in_the_database(tmp_path: Path, log: Log, view: str) -> None:
    sql = "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
    column_comments = await run_sql(tmp_path, sql, params=(view,))
    assert dict(column_comments.rows) == columns(view)
    assert [row[0] for row in column_comments.rows] == list(columns(view))
    view_comments = await run_sql(tmp_path, "SELECT comment FROM duckdb_views() WHERE view_name = ?", params=(view,))
    assert view_comments.rows == ((meaning(view),),) and meaning(view).startswith("One row per")
