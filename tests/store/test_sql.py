"""SQL from users: what it may, what it may not, on the recorder's own database and on the file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from story import story, wire
from waiting import LIMIT_S

from kernelswarm.schemas import InputError, StoreError, decode, encode
from kernelswarm.store import Log, Table, log_path, run_sql
from kernelswarm.store.query import pack
from kernelswarm.store.views import VIEWS

HOSTILE = [
    "INSERT INTO meta VALUES ('a', 'b')",
    "INSERT INTO events SELECT * FROM events",
    "UPDATE events SET agent = 'me'",
    "DELETE FROM events",
    "TRUNCATE events",
    "DROP TABLE events",
    "DROP VIEW sessions",
    "DROP TRIGGER no_update ON events",
    "ALTER TABLE events ADD COLUMN mine INTEGER",
    "CREATE TABLE mine (a INTEGER)",
    "CREATE TEMP TABLE mine AS SELECT 1",
    "CREATE MACRO mine() AS 1",
    "WITH gone AS (INSERT INTO meta VALUES ('a', 'b') RETURNING key) SELECT * FROM gone",
    "WITH gone AS (DELETE FROM meta RETURNING key) SELECT * FROM gone",
    "WITH gone AS (UPDATE meta SET value = '' RETURNING key) SELECT * FROM gone",
    "EXPLAIN ANALYZE DELETE FROM meta",
    "EXPLAIN ANALYZE INSERT INTO meta VALUES ('a', 'b')",
    "SELECT 1; DROP TABLE events",
    "COMMIT; DROP TABLE events",
    "ROLLBACK; BEGIN; DELETE FROM meta; COMMIT",
    "COMMIT",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "SELECT * FROM force_checkpoint('log')",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "SELECT * FROM enable_profiling()",
    "SET threads = 64",
    "SET enable_external_access = true",
    "RESET ALL",
    "CALL enable_logging()",
    "COPY events TO '{file}'",
    "COPY (SELECT 1) TO '{file}'",
    "EXPORT DATABASE '{file}'",
    "ATTACH '{file}'",
    "ATTACH '{log}' AS again",
    "DETACH log",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('{log}')",
    "SELECT * FROM read_json('https://example.org/x.json')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('{log}')",
    "SELECT getenv('HOME')",
    "SELECT * FROM query('DROP TABLE events')",
    "SELECT * FROM python_frame",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "VACUUM",
    "USE log",
    "SELECT",
    "SELECT * FROM",
    "",
    ";",
    "-- nothing",
    "SELECT * FROM nowhere",
    "SELECT missing FROM events",
    "SELECT CAST('a' AS INTEGER)",
    "SELECT ?",
    "hello",
    "SELECT '\ud800'",
]


@pytest.fixture(scope="module", params=["open here", "file"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose log is held by this process, and one whose log nobody holds; no test can change it."""
    home = tmp_path_factory.mktemp("home")
    with Log.open(log_path(home)) as log:
        log.append(wire(story()))
        if request.param == "file":
            log.close()
        yield home


@pytest.fixture(scope="module")
def untouched(home: Path) -> tuple[list[Any], list[str]]:
    """What is in ``home`` before any test: a file takes a tenth of a second to be read."""
    return content(home), names(home)


def names(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir())


def content(home: Path) -> list[Any]:
    here = Log.opened_here(log_path(home))
    log = here or Log.open(log_path(home), read_only=True)
    tables = ("events", "meta", "streams", "guard", "duckdb_settings()")
    named = "SELECT table_name FROM information_schema.tables ORDER BY 1"
    with log.cursor() as cursor:
        results = [cursor.execute(sql).fetchall() for sql in (named, *(f"FROM {table}" for table in tables))]
    if here is None:
        log.close()
    return results


@pytest.mark.parametrize(
    "sql", ["SELECT at FROM nodes", "SELECT node, max(AT) FROM nodes GROUP BY ALL", "SELECT * FROM nodes ORDER BY at"]
)
async def test_a_column_with_the_name_of_a_keyword_is_to_be_quoted(home: Path, sql: str) -> None:
    with pytest.raises(InputError, match=r'(?s)refused\. Parser Error.*write "at" in double quotes, or nodes\.at'):
        await run_sql(home, sql)
    with pytest.raises(InputError) as refused:
        await run_sql(home, sql.replace("FROM", "FROM FROM", 1))
    assert "double quotes" not in str(refused.value), "that alone is not what is wrong"


@pytest.mark.parametrize("sql", HOSTILE)
async def test_what_does_not_read_the_log_is_refused_and_changes_nothing(
    home: Path, untouched: tuple[list[Any], list[str]], sql: str
) -> None:
    python_frame = [(1,)]  # noqa: F841  DuckDB would look for a table of this name in Python
    with pytest.raises(InputError) as refused:
        await run_sql(home, sql.replace("{file}", str(home / "mine")).replace("{log}", str(log_path(home))))
    assert len(str(refused.value)) > 20
    assert (content(home), names(home)) == untouched
    assert (await run_sql(home, "SELECT 1")).rows == ((1,),), "the next query is not affected"


async def test_duckdb_says_what_was_wrong(home: Path) -> None:
    with pytest.raises(InputError, match=r"(?s)The query was refused.*Referenced column .missing.*LINE 1"):
        await run_sql(home, "SELECT missing FROM events")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM sessions",
        "FROM sessions SELECT count(*)",
        "WITH a AS (SELECT 1 AS n) SELECT n FROM a;",
        "VALUES (1)",
        "SELECT * FROM query('SELECT 1')",
        "/* how many */ SELECT count(DISTINCT session) FROM events -- so many",
    ],
)
async def test_what_reads_is_answered(home: Path, sql: str) -> None:
    assert (await run_sql(home, sql)).rows == ((1,),)


@pytest.mark.parametrize("sql", ["DESCRIBE nodes", "SUMMARIZE nodes", "SHOW TABLES", "EXPLAIN SELECT 1", "TABLE nodes"])
async def test_looking_around_is_answered(home: Path, sql: str) -> None:
    assert (await run_sql(home, sql)).rows


@pytest.mark.parametrize("sql", ["SHOW TABLES", " show tables; "])
async def test_the_tables_that_are_shown_are_those_for_people(home: Path, sql: str) -> None:
    table = await run_sql(home, sql)
    assert [row[0] for row in table.rows] == [*sorted(VIEWS), "events"]
    assert all(row[1] for row in table.rows)
    assert (await run_sql(home, sql, max_rows=2)).truncated


async def test_values_are_bound(home: Path) -> None:
    table = await run_sql(home, "SELECT ? || 'x', $2::INT + 1", params=("'; DROP TABLE events; --", 4))
    assert table.rows == (("'; DROP TABLE events; --x", 5),)


async def test_rows_are_limited_and_it_says_so(home: Path) -> None:
    table = await run_sql(home, "SELECT i FROM range(1000) r(i) ORDER BY i", max_rows=300)
    assert [row[0] for row in table.rows] == list(range(300))
    assert table.truncated
    assert not (await run_sql(home, "FROM range(300)", max_rows=300)).truncated


async def test_size_is_limited_too(home: Path) -> None:
    table = await run_sql(home, "SELECT repeat('x', 100000) FROM range(2000)")
    assert table.truncated
    assert len(table.rows) < 700


async def test_a_query_that_takes_too_long_is_stopped(home: Path) -> None:
    with pytest.raises(InputError, match=r"took longer than 0.2 s and was stopped"):
        await run_sql(home, "SELECT count(*) FROM range(10000000) a, range(10000000) b", timeout=0.2)
    assert (await run_sql(home, "SELECT 1")).rows == ((1,),)


async def test_memory_is_limited(home: Path) -> None:
    with pytest.raises(InputError, match=r"refused|stopped"):
        await run_sql(home, "SELECT list(i) FROM range(1000000000) r(i)", timeout=1)
    assert (await run_sql(home, "SELECT 1")).rows == ((1,),)


PLAIN = """SELECT 1::UTINYINT, 170141183460469231731687303715884105727::HUGEINT, 1.5::DECIMAL(9,2), 'nan'::DOUBLE,
    TIMESTAMP '2026-11-20 22:00:00.5', DATE '2026-11-20', INTERVAL 1 DAY, '\\xAB'::BLOB, [1, 2], {'a': [NULL]},
    MAP {'k': 1.0}, NULL, true, uuid(), '"j"'::JSON, sum(2) FROM range(3)"""


async def test_values_are_plain_and_the_same_over_the_bus(home: Path) -> None:
    table = await run_sql(home, PLAIN)
    row = [*table.rows[0]]
    assert len(row.pop(13)) == 36
    assert row == [1, str(2**127 - 1), 1.5, "nan", "2026-11-20 22:00:00.500000", "2026-11-20", "1 day", "ab",
        [1, 2], {"a": [None]}, {"k": 1.0}, None, True, '"j"', 6]  # fmt: skip
    assert table.types[:2] == ("UTINYINT", "HUGEINT")
    assert decode(encode(table), Table) == table
    assert len(pack(table)) < len(encode(table))


async def test_times_with_a_zone_and_long_intervals_are_spelled_out_under_their_names_in_order(home: Path) -> None:
    sql = """SELECT to_timestamp(i) AS "a ""time", [to_timestamp(0)], i AS i, '; é' AS i, INTERVAL 100000000 YEAR
        FROM range(?) r(i) ORDER BY r.i DESC;  -- in the order asked for; that is all"""
    table = await run_sql(home, sql, params=[3])
    assert table.columns[0] == 'a "time' and table.columns[2:4] == ("i", "i")
    assert [row[2:] for row in table.rows] == [(i, "; é", "100000000 years") for i in (2, 1, 0)]
    with duckdb.connect() as con:
        statement = "SELECT epoch(?::TIMESTAMPTZ)"
        assert [con.execute(statement, [row[0]]).fetchone() for row in table.rows] == [(2.0,), (1.0,), (0.0,)]


async def test_no_log_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no log at .*: run a search first"):
        await run_sql(tmp_path, "SELECT 1")
    assert names(tmp_path) == []


async def test_a_log_that_another_process_holds_is_waited_for(tmp_path: Path, log: Log, python: Callable) -> None:
    log.close()
    holder = await python("import duckdb; c = duckdb.connect(sys.argv[1]); print(1, flush=True); sys.stdin.read()",
                          log_path(tmp_path))  # fmt: skip
    await holder.stdout.readline()
    with pytest.raises(StoreError, match=f"in use by process {holder.pid}"):
        await run_sql(tmp_path, "SELECT 1", timeout=0.3)
    holder.stdin.close()
    assert (await run_sql(tmp_path, "SELECT 1", timeout=LIMIT_S)).rows == ((1,),)


def test_the_file_opened_for_reading_cannot_be_written(tmp_path: Path, log: Log) -> None:
    log.close()
    reading = Log.open(log_path(tmp_path), read_only=True)
    with reading, reading.cursor() as cursor, pytest.raises(duckdb.Error, match="read-only"):
        cursor.execute("INSERT INTO meta VALUES ('a', 'b')")
