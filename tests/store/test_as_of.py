"""The log as it was at an event, a position, a time; and that no SQL gets round it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from story import BEGIN_NS, SECOND, story, wire

from kernelswarm.schemas import InputError
from kernelswarm.store import Log, log_path, question, questions, run_sql
from kernelswarm.store.typed import NAMES
from kernelswarm.store.views import VIEWS

SEQ = 13
EVERYTHING = ("events", *NAMES, *VIEWS)


@pytest.fixture(scope="module")
def logged() -> list:
    return story()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, logged: list) -> Iterator[Path]:
    """A home whose log this process holds; no test changes it."""
    home = tmp_path_factory.mktemp("home")
    with Log.open(log_path(home)) as log:
        log.append(wire(logged))
        yield home


async def test_every_view_is_what_it_was_when_the_log_ended_there(tmp_path: Path, home: Path, logged: list) -> None:
    with Log.open(tmp_path / "then" / "log.duckdb") as then:
        then.append(wire(logged[:SEQ]))
    for name in EVERYTHING:
        was = await run_sql(tmp_path / "then", f"FROM {name} ORDER BY ALL")
        assert await run_sql(home, f"FROM {name} ORDER BY ALL", as_of=str(SEQ)) == was, name
    for query in questions():
        values = query.values({"session": "rmsnorm-a1", "node": "n2"} if query.name == "ancestors" else {})
        was = await run_sql(tmp_path / "then", query.sql, params=values)
        assert await run_sql(home, query.sql, params=values, as_of=str(SEQ)) == was, query.name


@pytest.mark.parametrize("offset", ["", "+00:00", "Z"])
async def test_position_event_and_time_name_the_same_point(home: Path, logged: list, offset: str) -> None:
    seconds = (BEGIN_NS + (SEQ - 1) * SECOND) // SECOND - 1_700_000_000
    id = logged[SEQ - 1].id
    begin = next(id[:length] for length in range(6, 33) if not id[:length].isdigit())
    for as_of in (str(SEQ), id, begin, f"2023-11-14T22:13:{20 + seconds}{offset}"):
        assert (await run_sql(home, "SELECT max(seq) FROM events", as_of=as_of)).rows == ((SEQ,),)


@pytest.mark.parametrize("as_of", ["0" * 32, "yesterday", "-1", "2023-99-01", "1; DROP TABLE events", "9" * 30])
async def test_what_is_no_point_of_the_log_is_refused(home: Path, logged: list, as_of: str) -> None:
    with pytest.raises(InputError, match=r"There is no event|is no point of the log"):
        await run_sql(home, "SELECT 1", as_of=as_of)


@pytest.mark.parametrize("as_of", ["99999", "31", "0" * 32])
async def test_an_event_that_is_not_there_yet_is_refused_and_the_newest_named(
    home: Path, logged: list, as_of: str
) -> None:
    newest = f"the newest is {len(logged)} (id {logged[-1].id}, "
    with pytest.raises(InputError, match=re.escape(newest)) as caught:
        await run_sql(home, "SELECT 1", as_of=as_of)
    assert f"There is no event {as_of} in this log" in str(caught.value)


async def test_the_newest_event_and_the_time_before_the_first_are_points_of_the_log(home: Path, logged: list) -> None:
    for as_of, events in ((str(len(logged)), len(logged)), ("0", 0), ("2001-01-01", 0)):
        assert (await run_sql(home, "SELECT count(*) FROM events", as_of=as_of)).rows == ((events,),)


@pytest.mark.parametrize(
    "sql",
    [
        "FROM main.events",
        "FROM log.events",
        "FROM log.main.events",
        'FROM "log"."main"."diagnosed_events"',
        "FROM memory.main.events",
        "SELECT (SELECT max(seq) FROM main.events)",
        "WITH a AS (FROM main.events) FROM a",
        "WITH events AS (FROM main.events) FROM events",
        "SELECT 1 WHERE EXISTS (FROM log.events)",
        "FROM query('FROM main.events')",
        "FROM query('FROM ma' || 'in.events')",
        "FROM query_table('main.events')",
        "FROM query_table(['main.events'])",
        "FROM pragma_storage_info('events')",
        "FROM duckdb_tables()",
        "FROM duckdb_tables",
        "FROM information_schema.tables",
        "FROM sqlite_master",
        "SUMMARIZE main.events",
        "DESCRIBE main.events",
        "EXPLAIN ANALYZE FROM main.events",
        "SELECT * FROM events, main.events AS b",
        "FROM events UNION ALL FROM main.events",
        "FROM events JOIN log.main.events USING (seq)",
        "PIVOT main.events ON tag",
        "SELECT seq FROM (SELECT 1) AS t, LATERAL (FROM main.events)",
        "VALUES ((SELECT count(*) FROM main.events))",
    ],
)
async def test_no_query_sees_what_came_later(home: Path, logged: list, sql: str) -> None:
    with pytest.raises(InputError):
        await run_sql(home, sql, as_of=str(SEQ))


@pytest.mark.parametrize("name", ["meta", "streams", "guard"])
async def test_the_logs_own_books_do_not_tell(home: Path, logged: list, name: str) -> None:
    table = await run_sql(home, f"FROM {name}", as_of=str(SEQ))
    assert {row[0] for row in table.rows} <= {"log_id", "created_ns", "schema_version"}


async def test_the_next_query_sees_everything_again(home: Path, logged: list) -> None:
    await run_sql(home, "SELECT 1", as_of="1")
    assert (await run_sql(home, "SELECT max(seq) FROM main.events")).rows == ((len(logged),),)


async def test_a_question_as_of_then(home: Path, logged: list) -> None:
    query = question("how_sessions_end")
    table = await run_sql(home, query.sql, params=query.values({}), as_of=str(SEQ))
    assert table.records()[0]["reason"] == "open"
