"""What looks at a session refuses one that is not what was written; what asks the whole log answers and warns."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import histories
import pytest
from waiting import LIMIT_S

import kernelswarm as python
from kernelswarm.bus import Bus
from kernelswarm.schemas import LogCorrupted
from kernelswarm.store import Log, check_session, log_path, recording, verify_small

PARENT, FORK, OTHER = "rmsnorm-nvsby", "rmsnorm-gxa5b", "rmsnorm-jrfjz"
"""A closed session, a fork of it, and one that was killed; they stand in the log in this order."""

LOOKS = (
    ["show", PARENT],
    ["show", PARENT, "--node", "n002", "--json"],
    ["show", PARENT, "--source"],
    ["diff", PARENT, OTHER],
    ["diff", OTHER, PARENT, "--json"],
    ["lineage", PARENT, "n001"],
    ["lineage", FORK, "n002"],
    ["diff", FORK, OTHER],
)
"""All of them read the closed session."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose rows anybody may change."""
    home = tmp_path_factory.mktemp("histories")
    sessions = {**histories.read("v1-forked"), **histories.read("v1-killed")}
    for session in (PARENT, FORK, OTHER):
        histories.into_log(home, sessions[session])
    with duckdb.connect(log_path(home)) as con:
        con.execute("DROP TRIGGER no_update ON events")
        con.execute("DROP TRIGGER no_delete ON events")
    return log_path(home)


@pytest.fixture
def changed(home: Path, written: Path) -> Callable[..., Path]:
    """Puts the log into the home, changed by statements."""

    def make(*statements: str) -> Path:
        home.mkdir(exist_ok=True)
        shutil.copy(written, log_path(home))
        with duckdb.connect(log_path(home)) as con:
            for statement in statements:
                con.execute(statement)
        return log_path(home)

    return make


def contents(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() if path.is_file() else b"" for path in home.rglob("*")}


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("UPDATE events SET body = replace(body, '1', '2') WHERE seq = 8", 8),
        ("DELETE FROM events WHERE seq = 8", 8),
        ("UPDATE events SET seq = 17 - seq WHERE seq IN (8, 9)", 8),
        (f"DELETE FROM events WHERE seq = (SELECT max(seq) FROM events WHERE session = '{PARENT}')", 31),
    ],
    ids=["changed", "taken out", "swapped", "last taken out"],
)
def test_what_looks_at_a_session_names_its_first_bad_event(
    statement: str, seq: int, changed: Callable[..., Path], home: Path, kernelswarm: Callable[..., Any]
) -> None:
    changed(statement)
    before = contents(home)
    message = kernelswarm("replay", PARENT).err
    assert message.startswith(f"error: The log is damaged from event {seq} (")
    for command in LOOKS:
        ran = kernelswarm(*command)
        assert (ran.status, ran.out, ran.err) == (2, "", message), command
    for call in (lambda: python.diff(PARENT, OTHER), lambda: python.lineage(FORK, "n002")):
        with pytest.raises(LogCorrupted, match=f"damaged from event {seq} "):
            call()
    assert contents(home) == before


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (f"DELETE FROM events WHERE session = '{PARENT}'", "damaged from event 1 (missing): it is not there"),
        ("DELETE FROM events", "damaged from event 1 (missing): it is not there"),
        ("DELETE FROM meta WHERE key = 'events'", "damaged: the marks of how it was left"),
        ("UPDATE meta SET value = 'many' WHERE key = 'events'", "damaged: the marks of how it was left"),
        ("INSERT INTO meta SELECT * FROM meta", "damaged: the marks of how it was left"),
        ("ALTER TABLE events DROP COLUMN wire", "damaged: the columns of its events were changed"),
        ("ALTER TABLE diagnosed_events DROP COLUMN speedup", "damaged beside its events: "),
    ],
)
def test_a_log_that_was_built_otherwise_is_damaged_and_no_defect_here(
    statement: str, sentence: str, changed: Callable[..., Path], home: Path, kernelswarm: Callable[..., Any]
) -> None:
    changed(statement)
    before = contents(home)
    ran = kernelswarm("show", PARENT)
    assert (ran.status, ran.out) == (2, "") and sentence in ran.err
    assert contents(home) == before


def test_what_is_made_of_the_events_is_made_anew_where_it_is_gone(
    changed: Callable[..., Path], kernelswarm: Callable[..., Any]
) -> None:
    changed()
    good = kernelswarm("show", PARENT)
    for gone in ("DROP VIEW sessions", "UPDATE meta SET value = 'x' WHERE key = 'typed_events'"):
        path = changed("DROP TABLE diagnosed_events", gone)
        assert kernelswarm("show", PARENT) == good, "read from the bodies where nobody may write"
    with Log.open(path) as log:
        assert log.verify().ok
    assert kernelswarm("show", PARENT) == good


def test_what_was_written_is_shown(changed: Callable[..., Path], kernelswarm: Callable[..., Any]) -> None:
    changed()
    for command in LOOKS:
        ran = kernelswarm(*command)
        assert (ran.status, ran.err) == (0, "") and ran.out, command


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        (f"UPDATE diagnosed_events SET speedup = 99 WHERE session = '{PARENT}'", "diagnosed_events"),
        (f"DELETE FROM closed_events WHERE session = '{PARENT}'", "closed_events"),
        (f"UPDATE planned_events SET session = '{OTHER}' WHERE session = '{PARENT}'", "planned_events"),
        (f"INSERT INTO series_events FROM series_events WHERE session = '{PARENT}'", "series_events"),
    ],
)
def test_what_stands_in_typed_columns_is_held_against_the_events(
    statement: str, table: str, changed: Callable[..., Path], kernelswarm: Callable[..., Any]
) -> None:
    changed(statement)
    ran = kernelswarm("show", PARENT)
    assert (ran.status, ran.out) == (2, "")
    assert "damaged from event " in ran.err and f"the table {table} does not hold what its body says" in ran.err
    assert kernelswarm("show", FORK).status == 0


def test_what_lies_behind_an_open_session_is_left_to_whoever_goes_on_with_it(
    changed: Callable[..., Path], home: Path, kernelswarm: Callable[..., Any]
) -> None:
    changed()
    (behind,) = histories.read("v1-budget").values()
    histories.into_log(home, behind)
    with duckdb.connect(log_path(home)) as con:
        con.execute("UPDATE events SET worker = 'other' WHERE seq = (SELECT max(seq) - 3 FROM events)")
    assert kernelswarm("show", OTHER).status == 0
    assert kernelswarm("lineage", OTHER, "n001").status == 0
    assert "damaged from event" in kernelswarm("replay", OTHER).err


async def test_a_session_is_verified_through_a_recorder_too(
    changed: Callable[..., Path], home: Path, tmp_path: Path, bus: Bus
) -> None:
    changed("UPDATE closed_events SET win = NOT win", "UPDATE events SET worker = 'other' WHERE seq = 70")
    async with asyncio.timeout(LIMIT_S), recording(home, bus) as recorder:
        await recorder.started.wait()
        for folder in (home, tmp_path / "far"):
            with pytest.raises(LogCorrupted, match="the table closed_events does not hold"):
                await check_session(folder, PARENT, bus=bus)
            with pytest.raises(LogCorrupted, match="damaged from event 70 "):
                await check_session(folder, OTHER, bus=bus)


def test_sql_and_sessions_answer_and_warn_of_the_first_bad_event(
    changed: Callable[..., Path], home: Path, kernelswarm: Callable[..., Any]
) -> None:
    for command in (["sql", "SELECT count(*) AS n FROM events"], ["sessions"]):
        changed()
        good = kernelswarm(*command)
        assert "warning" not in good.err
        changed("UPDATE events SET worker = 'other' WHERE seq = 8")
        ran = kernelswarm(*command)
        assert (ran.status, ran.out) == (0, good.out)
        assert "warning: The log is damaged from event 8 (" in ran.err


async def test_only_a_small_log_that_nobody_has_is_verified_beside_a_question(
    changed: Callable[..., Path], home: Path
) -> None:
    path = changed("UPDATE events SET worker = 'other' WHERE seq = 8")
    verification = await verify_small(home)
    assert verification is not None and verification.bad_seq == 8
    assert await verify_small(home, most=80) is None
    with Log.open(path):
        assert await verify_small(home) is None
    assert await verify_small(home / "nowhere") is None


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in the middle": lambda data: data[: len(data) // 2],
    "header overwritten": lambda data: data[:4096] + os.urandom(4096) + data[8192:],
    "beginning overwritten": lambda data: os.urandom(4096) + data[4096:],
}
READERS = (
    *(["show", PARENT], ["sql", "SELECT 1"], ["replay", PARENT], ["diff", PARENT, FORK], ["lineage", PARENT, "n001"]),
    *(["sessions"], ["log", "verify"], ["log", "stats"], ["log", "tail"], ["log", "backup", "copy.duckdb"]),
    *(["resume", OTHER], ["fork", PARENT, "--node", "n001"], ["export", "-f", "sft", "-o", "sft"]),
    ["optimize", str(Path(python.__file__).parent / "problems" / "rmsnorm.py")],
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_opened_is_named_with_the_way_out_and_left_as_it_is(
    damage: str,
    changed: Callable[..., Path],
    home: Path,
    tmp_path: Path,
    kernelswarm: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = changed()
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    _are_refused(tmp_path, str(path), kernelswarm)


def _are_refused(folder: Path, named: str, kernelswarm: Callable[..., Any]) -> None:
    before = contents(folder)
    for command in READERS:
        ran = kernelswarm(*command)
        assert (ran.status, ran.out, ran.err.count("\n")) == (2, "", 1), (command, ran)
        assert ran.err.startswith("error: ") and named in ran.err and "overwritten" in ran.err
        assert "is recorded again" in ran.err
    assert contents(folder) == before


LEAVE = """
from story import story, wire
from pathlib import Path
import os, sys
from kernelswarm.store import Log
log = Log.open(Path(sys.argv[1]))
for number in range(3):
    log.append(wire(story(f"s-{number}")), stream=f"s-{number}")
os._exit(0)
"""


def test_a_write_ahead_log_that_was_overwritten_is_named_and_one_that_was_torn_ends_the_log(
    changed: Callable[..., Path],
    tmp_path: Path,
    kernelswarm: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = changed()
    paths = {**os.environ, "PYTHONPATH": str(Path(histories.__file__).parent)}
    subprocess.run([sys.executable, "-c", LEAVE, path], env=paths, timeout=LIMIT_S, check=True)
    wal = path.with_name(path.name + ".wal")
    data = wal.read_bytes()
    middle = len(data) // 2
    wal.write_bytes(data[:middle] + os.urandom(100) + data[middle + 100 :])
    _are_refused(tmp_path, wal.name, kernelswarm)
    wal.write_bytes(data[:-5])
    assert "all as they were written" in kernelswarm("log", "verify").out


def test_where_only_tables_made_of_the_events_are_unreadable_a_backup_makes_a_whole_log(
    changed: Callable[..., Path], home: Path, tmp_path: Path, kernelswarm: Callable[..., Any]
) -> None:
    path = changed()
    data = path.read_bytes()
    ran = None
    for at in range(3 * 4096 + 100_000, len(data), 262_144):
        path.write_bytes(data[:at] + os.urandom(4096) + data[at + 4096 :])
        ran = kernelswarm("log", "verify")
        if "beside its events" in ran.err:
            break
    assert ran is not None and ran.status == 1 and "log backup FILE` makes a whole log" in ran.err
    assert kernelswarm("log", "backup", tmp_path / "copy.duckdb").status == 0
    (tmp_path / "copy.duckdb").replace(path)
    assert kernelswarm("log", "verify").status == 0
