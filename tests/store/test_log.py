"""The log as a file: contract, creation, refusals."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from log_contract import LogContract
from story import story, wire

from given import envelope_of
from kernelswarm.schemas import StopRequested, StoreError, encode
from kernelswarm.store import Log, LogBusyError, log_path
from kernelswarm.store.query import Query, answer


class TestLog(LogContract):
    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[Log]:
        with Log.open(log_path(tmp_path)) as log:
            yield log


class TestReopenedLog(LogContract):
    """Closed and opened again between any two calls."""

    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[Log]:
        yield Log.open(log_path(tmp_path))
        if (left := Log.opened_here(log_path(tmp_path))) is not None:
            left.close()

    def again(self, log: Log) -> Log:
        log.close()
        return Log.open(log.path)


def test_a_new_log_is_empty_and_good(log: Log) -> None:
    assert (len(log), log.read(), log.verify().ok, log.last_seq("a")) == (0, [], True, 0)


def test_logs_have_identities(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a" / "log.duckdb") as first, Log.open(tmp_path / "b" / "log.duckdb") as second:
        assert first.id != second.id


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE events SET agent = 'me'",
        "DELETE FROM events",
        "TRUNCATE events",
        "UPDATE events SET body = body",
        "MERGE INTO events USING (SELECT 1 AS one) ON seq = one WHEN MATCHED THEN DELETE",
        "WITH gone AS (DELETE FROM events RETURNING *) SELECT * FROM gone",
    ],
)
def test_history_cannot_be_changed_by_whoever_opens_the_file(log: Log, sql: str) -> None:
    log.append(wire(story()))
    log.close()
    with duckdb.connect(log.path) as con, pytest.raises(duckdb.Error, match=r"append-only|tables with triggers"):
        con.execute(sql)
    with Log.open(log.path) as log:
        assert log.verify().ok


def test_a_file_that_is_no_database_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = log_path(tmp_path)
    path.write_text("dear diary\n" * 1000)
    with pytest.raises(StoreError, match=r"log.duckdb is not a log of kernelswarm: move it away"):
        Log.open(path)
    assert path.read_text().startswith("dear diary")


def test_a_file_of_another_database_is_refused_as_well(tmp_path: Path) -> None:
    """DuckDB would open it by an extension, and speak of that."""
    sqlite3.connect(log_path(tmp_path)).execute("CREATE TABLE events (a)")
    (tmp_path / "folder").mkdir()
    log_path(tmp_path / "folder").mkdir()
    for home in (tmp_path, tmp_path / "folder"):
        for read_only in (False, True):
            with pytest.raises(StoreError, match=r"log.duckdb is not a log of kernelswarm: move it away"):
                Log.open(log_path(home), read_only=read_only)


def test_a_database_that_is_no_log_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = log_path(tmp_path)
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE events (mine INTEGER)")
    for read_only in (False, True):
        with pytest.raises(StoreError, match="not a log of kernelswarm"):
            Log.open(path, read_only=read_only)
    with duckdb.connect(path, read_only=True) as con:
        assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("events",)]


def test_a_log_of_a_newer_version_is_refused(log: Log) -> None:
    log.close()
    with duckdb.connect(log.path) as con:
        con.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(StoreError, match="version 99, this kernelswarm knows 1: install a newer"):
        Log.open(log.path)


@pytest.mark.parametrize("read_only", [True, False])
def test_views_of_another_version_are_replaced(log: Log, read_only: bool) -> None:
    log.append(wire(story()))
    log.close()
    with duckdb.connect(log.path) as con:
        con.execute("CREATE OR REPLACE VIEW sessions AS SELECT 1 AS old")
        con.execute("UPDATE meta SET value = 'old' WHERE key = 'views_sha256'")
    with Log.open(log.path, read_only=read_only) as log, log.cursor() as cursor:
        assert cursor.execute("SELECT problem FROM sessions").fetchall() == [("rmsnorm",)]


def test_reading_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no log at"):
        Log.open(log_path(tmp_path), read_only=True)
    assert not log_path(tmp_path).exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be opened or written"):
        Log.open(tmp_path / "file" / "log.duckdb")


def test_one_process_opens_it_once(log: Log) -> None:
    for read_only in (False, True):
        with pytest.raises(LogBusyError, match="in use by this process"):
            Log.open(log.path, read_only=read_only)
    assert Log.opened_here(log.path) is log


def test_another_process_is_named_and_nothing_is_lost(log: Log) -> None:
    log.append(wire(story()))
    code = "import sys; from kernelswarm.store import Log; from pathlib import Path; Log.open(Path(sys.argv[1]))"
    completed = subprocess.run([sys.executable, "-c", code, str(log.path)], capture_output=True, text=True, check=False)
    assert "LogBusyError" in completed.stderr
    assert "in use by process" in completed.stderr
    assert log.append([(1000, encode(envelope_of(StopRequested(reason="user"))))]) == 1


async def test_threads_may_read_while_one_writes(log: Log) -> None:
    events = [envelope_of(StopRequested(reason="user"), index=index) for index in range(400)]
    batches = [wire(events[start : start + 20], start + 1) for start in range(0, 400, 20)]

    def write() -> None:
        for batch in batches:
            log.append(batch, stream="a")

    async def read(until: asyncio.Task[None]) -> list[int]:
        seen = []
        while not until.done():
            seen.append(len(await asyncio.to_thread(log.read)))
        return seen

    writing = asyncio.create_task(asyncio.to_thread(write))
    seen = await read(writing)
    await writing
    assert seen == sorted(seen)
    assert all(count % 20 == 0 for count in seen), "a batch is seen whole or not at all"
    assert len(log.read()) == 400


def test_a_closed_log_says_so(log: Log) -> None:
    log.close()
    some = wire(story())
    for use in (lambda: log.append(some), lambda: log.append_all([some], stream="a"), log.read, lambda: log.dense):
        with pytest.raises(StoreError, match="is closed: open it again"):
            use()


def test_a_query_that_closing_stopped_says_so(log: Log) -> None:
    query = Query(sql="SELECT count(*) FROM range(100000000000) a, range(100000000) b", timeout=30)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(answer, log, query)
        time.sleep(0.3)
        log.close()
        with pytest.raises(StoreError, match="stopped because its log was closed"):
            asking.result(30)


def test_a_million_ids_are_looked_up_without_a_scan(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is new costs no SQL: only suspects are looked up."""
    log.append(wire(story()))
    statements: list[Callable] = []
    plain = log._con

    class Spy:
        def __getattr__(self, name: str) -> object:
            return getattr(plain, name)

        def execute(self, sql: str, *rest: object) -> object:
            statements.append(sql)
            return plain.execute(sql, *rest)

    monkeypatch.setattr(log, "_con", Spy())
    log.append([(1000, encode(envelope_of(StopRequested(reason="user"))))])
    assert statements and not [sql for sql in statements if "FROM events" in sql]


@pytest.mark.parametrize("late", [False, True])
def test_closing_stops_the_queries_that_run_and_one_that_has_just_begun(
    log: Log, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    cursor = log.cursor()
    begin = threading.Event()
    refused: list[Exception] = []

    def ask() -> None:
        begin.wait()
        try:
            cursor.execute("SELECT count(*) FROM range(100000000000) a, range(100000000) b").fetchall()
        except duckdb.Error as error:
            refused.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    if late:
        plain = log._reader

        class Waits:
            """Does as DuckDB, which waits for a query that begins while it looks whether one runs."""

            def close(self) -> None:
                begin.set()
                asking.join(30)
                plain.close()

        monkeypatch.setattr(log, "_reader", Waits())
    else:
        begin.set()
        time.sleep(0.2)
    log.close()
    asking.join(30)
    assert not asking.is_alive() and len(refused) == 1
