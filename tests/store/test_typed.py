"""Typed tables: filled with the events, made anew when they are missing, and never anything but what the events say."""

import shutil
from pathlib import Path

import duckdb
import pytest
from story import Story, story, wire

from kernelswarm.schemas import Envelope, Intent, TaskClaimed, TaskSubmitted
from kernelswarm.store import Log, log_path, run_sql
from kernelswarm.store.typed import NAMES, SQL


def edit(path: Path, *statements: str) -> None:
    with duckdb.connect(path) as con:
        for statement in statements:
            con.execute(statement)


def rows(path: Path, name: str) -> list[tuple]:
    with Log.open(path, read_only=True) as log, log.cursor() as cursor:
        return cursor.execute(f"FROM {name} ORDER BY ALL").fetchall()


def handed_in() -> list[Envelope]:
    """A session whose first node somebody outside wrote, the second the generator."""
    history = Story("handed-in-b2")
    history.open()
    history.plan("n1", "", 1, Intent.draft)
    history.say(TaskClaimed(lease="handed-in-b2/n1/1", agent="alice", minutes=30.0), node="n1")
    history.say(TaskSubmitted(lease="handed-in-b2/n1/1", source="x", sha256="a"), node="n1", agent="user")
    history.propose("n1")
    history.plan("n2", "", 2, Intent.draft)
    history.propose("n2")
    return history.envelopes


async def test_a_node_has_the_author_whom_its_user_named(path: Path) -> None:
    asked = "SELECT node, author FROM nodes WHERE session = 'handed-in-b2' ORDER BY number"
    assert (await run_sql(path.parent, asked)).rows == (("n1", "alice"), ("n2", "generator"))
    candidates = "SELECT DISTINCT author FROM candidates ORDER BY author"
    assert (await run_sql(path.parent, candidates)).rows == (("alice",), ("generator",))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that was written batch by batch: to copy, because that takes half a second."""
    path = log_path(tmp_path_factory.mktemp("written"))
    messages = wire([*story(), *handed_in()])
    with Log.open(path) as log:
        for start in range(0, len(messages), 5):
            log.append(messages[start : start + 5])
    return path


@pytest.fixture
def path(tmp_path: Path, written: Path) -> Path:
    return Path(shutil.copy(written, log_path(tmp_path)))


@pytest.mark.parametrize("name", NAMES)
def test_batch_by_batch_they_hold_what_the_events_say(path: Path, name: str) -> None:
    table_rows = rows(path, name)
    assert table_rows
    with Log.open(path, read_only=True) as log, log.cursor() as cursor:
        assert cursor.execute(f"FROM ({SQL[name]}) ORDER BY ALL").fetchall() == table_rows


def test_they_are_made_anew_where_a_log_lacks_them(path: Path) -> None:
    before = {name: rows(path, name) for name in NAMES}
    edit(path, *(f"DROP TABLE {name}" for name in NAMES), "DELETE FROM meta WHERE key LIKE 'typed%'")
    assert {name: rows(path, name) for name in NAMES} == before, "read from the bodies where nobody may write"
    Log.open(path).close()
    with duckdb.connect(path, read_only=True) as con:
        assert set(NAMES) <= {row[0] for row in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert {name: rows(path, name) for name in NAMES} == before


async def test_what_an_older_program_wrote_is_caught_up(path: Path) -> None:
    half = len(story()) // 2
    before = {name: rows(path, name) for name in NAMES}
    edit(path, *(f"DELETE FROM {name} WHERE seq > {half}" for name in NAMES),
         f"UPDATE meta SET value = '{half}' WHERE key = 'typed_events'")  # fmt: skip
    assert (await run_sql(path.parent, "SELECT status FROM sessions WHERE session = 'rmsnorm-a1'")).rows == (
        ("closed",),
    )
    Log.open(path).close()
    assert {name: rows(path, name) for name in NAMES} == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE diagnosed_events SET speedup = 9 WHERE node = 'n2'",
        "DELETE FROM diagnosed_events WHERE node = 'n2'",
        "INSERT INTO diagnosed_events FROM diagnosed_events WHERE node = 'n2'",
    ],
)
def test_a_table_that_was_tampered_with_is_found(path: Path, statement: str) -> None:
    with Log.open(path) as log:
        log.verify().check()
        (seq,) = log.cursor().execute("SELECT min(seq) FROM diagnosed_events WHERE node = 'n2'").fetchone()
    edit(path, statement)
    with Log.open(path) as log:
        result = log.verify()
    assert not result.ok
    assert (result.bad_seq, "diagnosed_events" in result.reason) == (seq, True)
