"""SQL that would take the recorder's memory, time or secrets is refused before it runs, or stopped."""

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from story import story, wire
from waiting import LIMIT_S

from kernelswarm.bus import Bus
from kernelswarm.schemas import InputError
from kernelswarm.store import Log, log_path, recording, run_sql
from kernelswarm.store.limits import Limits
from kernelswarm.store.sql_allowlist import MOST_CHARACTERS

GREEDY = [
    "SELECT " + "(" * 50_000,
    "SELECT repeat('x', 3000000000)",
    "SELECT system.main.repeat('x', 3000000000)",
    "SELECT 'x'.repeat(3000000000)",
    "SELECT repeat(body, 100) FROM events",
    "SELECT length(repeat('x', i)) FROM range(2000000000, 2000000100) r(i)",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT len(range(3000000000))",
    "SELECT list_resize([1], 2000000000)",
    "SELECT format('{:>2000000000}', 1)",
    "SELECT format('{:>{}}', 1, 2000000000)",
    "SELECT printf('%2000000000d', 1)",
    "SELECT printf('%*d', 2000000000, 1)",
    "SELECT replace(body, 'e', body) FROM events",
    "EXPLAIN ANALYZE SELECT repeat('x', 3000000000)",
    "EXPLAIN (ANALYZE, FORMAT JSON) SELECT repeat('x', 3000000000)",
    "/**/ EXPLAIN ANALYZE SELECT repeat('x', 3000000000)",
    "FROM query('SELECT repeat(''x'', 3000000000)')",
    "FROM repeat('x', 30000000000)",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT 1 -- " + "x" * MOST_CHARACTERS,
]
ABOUT_THE_MACHINE = [
    "SELECT current_setting('temp_directory')",
    "FROM duckdb_settings()",
    "FROM duckdb_databases()",
    "FROM duckdb_secrets()",
    "FROM pragma_database_list()",
    "FROM which_secret('s3://a', 's3')",
    "SELECT write_log('mine')",
]
ENDLESS = [
    "SELECT count(*) FROM events a, events b, events c, events d, events e, events f, events g, events h, events i",
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x FROM t) SELECT count(*) FROM t",
    "SELECT i FROM range(100000000000) r(i) WHERE i < 0",
    "SELECT a.i + b.i FROM range(100000000) a(i), range(10000000) b(i) ORDER BY 1",
]


LATE = r"took longer than [\d.]+ s and (was|is being) stopped|kept the recorder busy"
"""What a query hears that got too little time: readers step back behind everybody else on the machine."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose log this process holds; no test changes it."""
    home = tmp_path_factory.mktemp("home")
    with Log.open(log_path(home)) as log:
        log.append(wire(story()))
        yield home


@pytest.mark.parametrize("sql", GREEDY + ABOUT_THE_MACHINE, ids=lambda sql: sql[:60])
async def test_it_is_refused_with_a_sentence(home: Path, sql: str) -> None:
    with pytest.raises(InputError, match=r"refused|shorten|one plain SELECT"):
        await run_sql(home, sql, timeout=LIMIT_S)
    assert (await run_sql(home, "SELECT 1")).rows == ((1,),)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('-', 40)",
        "SELECT lpad('7', 3, '0')",
        "SELECT format('{:.2f}x', 1.5)",
        "SELECT replace('a', 'a', 'b')",
        "SELECT list_transform(advice, lambda one: one.action) FROM diagnoses",
        "SELECT unnest(samples_ns) FROM measurements",
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'nodes'",
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'nodes'",
        "SELECT * FROM main.nodes",
        "EXPLAIN SELECT * FROM nodes",
    ],
)
async def test_honest_questions_pass(home: Path, sql: str) -> None:
    assert (await run_sql(home, sql)).rows


@pytest.mark.parametrize("sql", ENDLESS)
async def test_what_never_ends_is_stopped_over_the_bus_with_a_sentence(tmp_path: Path, bus: Bus, sql: str) -> None:
    async with recording(tmp_path, bus) as recorder:
        await recorder.recorded(max(await bus.publish_many(story())))
        elsewhere = tmp_path / "elsewhere"
        with pytest.raises(InputError, match=LATE):
            await run_sql(elsewhere, sql, bus=bus, timeout=0.3)
        seen = await run_sql(elsewhere, "SELECT count(*) FROM events", bus=bus)
        assert seen.rows == ((len(story()),),)


async def test_who_waits_for_others_hears_in_time_and_recording_goes_on(tmp_path: Path, bus: Bus) -> None:
    async with recording(tmp_path, bus) as recorder:
        await recorder.recorded(max(await bus.publish_many(story("one"))))
        elsewhere = tmp_path / "elsewhere"
        slow = [asyncio.create_task(run_sql(elsewhere, ENDLESS[0], bus=bus, timeout=2)) for _ in range(2)]
        with pytest.raises(InputError, match=LATE):
            while not all(task.done() for task in slow):  # they may not have got there yet
                await run_sql(elsewhere, "SELECT 1", bus=bus, timeout=0.3)
        await recorder.recorded(max(await bus.publish_many(story("two"))))
        for result in await asyncio.gather(*slow, return_exceptions=True):
            assert isinstance(result, InputError) and re.search(LATE, str(result))


def test_a_query_whose_process_grows_too_much_is_stopped(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()

    class Connection:
        def interrupt(self) -> None:
            stopped.set()

    grown = iter([0, *[8 * 1024**3] * 1000])
    monkeypatch.setattr("kernelswarm.store.limits.resident_bytes", lambda: next(grown))
    with Limits(Connection(), 60) as limits:  # type: ignore[arg-type]
        assert stopped.wait(LIMIT_S)
    assert limits.greedy
