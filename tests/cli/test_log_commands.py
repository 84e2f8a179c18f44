"""``log`` and ``export`` as commands: what they print, how they end, and that a mistake changes nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from logged import SESSION, write_session
from waiting import LIMIT_S

from kernelswarm.schemas import decode_envelope
from kernelswarm.store import Log, log_path

Command = Callable[..., Any]


def test_path_is_told_whether_it_is_there_or_not(home: Path, kernelswarm: Command) -> None:
    assert kernelswarm("log", "path").out == f"{log_path(home)}\n"
    assert json.loads(kernelswarm("log", "path", "--json").out) == {"path": str(log_path(home)), "exists": False}


def test_verify_says_yes_and_then_names_the_first_bad_event(recorded: Path, kernelswarm: Command) -> None:
    ran = kernelswarm("log", "verify")
    assert ran.status == 0 and "all as they were written; head " in ran.out
    with duckdb.connect(log_path(recorded)) as con:
        con.execute("DROP TRIGGER no_update ON events")
        con.execute("UPDATE events SET at_ns = at_ns + 1 WHERE seq = 6")
    ran = kernelswarm("log", "verify")
    assert ran.status == 1 and "damaged from event 6 (" in ran.err and "5 events before it" in ran.err
    report = json.loads(kernelswarm("log", "verify", "--json").out)
    assert (report["ok"], report["bad_seq"], report["events"]) == (False, 6, 5)


def test_verify_of_a_file_that_was_overwritten_in_places_names_an_event(home: Path, kernelswarm: Command) -> None:
    for number in range(10):
        write_session(home, f"rmsnorm-{number}")
    path = log_path(home)
    data = path.read_bytes()
    statuses = set()
    for place in range(4, 20, 3):
        at = len(data) * place // 20
        path.write_bytes(data[:at] + os.urandom(4096) + data[at + 4096 :])
        ran = kernelswarm("log", "verify")
        statuses.add(ran.status)
        assert ran.status in (0, 1, 2) and "Traceback" not in ran.err
        if ran.status == 1:
            assert "damaged from event" in ran.err or "damaged beside its events" in ran.err
    assert statuses & {1, 2}


@pytest.mark.parametrize("command", [["verify"], ["stats"], ["tail"], ["backup", "copy.duckdb"]])
@pytest.mark.parametrize("what", ["none", "empty", "noise", "folder", "newer", "cut"])
def test_a_log_that_is_none_is_bad_input(
    home: Path, kernelswarm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = log_path(home)
    home.mkdir(exist_ok=True)
    if what == "empty":
        path.touch()
    elif what == "noise":
        path.write_bytes(bytes(range(256)) * 100)
    elif what == "folder":
        path.mkdir()
    elif what in ("newer", "cut"):
        write_session(home)
    if what == "newer":
        with duckdb.connect(path) as con:
            con.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    elif what == "cut":
        path.write_bytes(path.read_bytes()[:20_000])
    before = sorted(tmp_path.rglob("*"))
    ran = kernelswarm("log", *command)
    assert ran.status == 2 and ran.out == "" and ran.err.startswith("error: ") and ran.err.count("\n") == 1
    if what == "newer":
        assert "version 99" in ran.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_backup_is_the_log_again(recorded: Path, kernelswarm: Command, tmp_path: Path) -> None:
    ran = kernelswarm("log", "backup", tmp_path / "copy.duckdb", "--json")
    report = json.loads(ran.out)
    with Log.open(tmp_path / "copy.duckdb") as copy, Log.open(log_path(recorded), read_only=True) as log:
        assert copy.read() == log.read() and copy.head == log.head == report["head"] and copy.id != log.id
        assert copy.verify().ok
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.duckdb", "home"]


@pytest.mark.parametrize(
    ("place", "sentence"), [("home", "is a folder"), ("taken", "is there already"), ("no/copy", "no folder")]
)
def test_a_backup_takes_nobodys_place(
    recorded: Path, kernelswarm: Command, tmp_path: Path, place: str, sentence: str
) -> None:
    (tmp_path / "taken").write_text("kept")
    ran = kernelswarm("log", "backup", tmp_path / place)
    assert ran.status == 2 and sentence in ran.err
    assert (tmp_path / "taken").read_text() == "kept" and not (tmp_path / "no").exists()


def test_import_says_what_came(home: Path, kernelswarm: Command, tmp_path: Path) -> None:
    write_session(tmp_path / "there")
    source = log_path(tmp_path / "there")
    assert "events of 1 sessions are new, 0 were here already" in kernelswarm("log", "import", source).out
    assert json.loads(kernelswarm("log", "import", source, "--json").out)["events"] == 0
    assert "2.00x" in kernelswarm("show", SESSION).out
    ran = kernelswarm("log", "import", tmp_path / "nowhere")
    assert ran.status == 2 and "there is no" in ran.err


def test_stats_count(recorded: Path, kernelswarm: Command) -> None:
    statistics = json.loads(kernelswarm("log", "stats", "--json").out)
    with Log.open(log_path(recorded), read_only=True) as log:
        assert statistics["events"] == len(log) == sum(statistics["kinds"].values()) == sum(statistics["days"].values())
    assert (
        statistics["sessions"] == 1
        and statistics["bytes"] > 0
        and statistics["busiest_per_second"] == statistics["events"]
    )
    assert statistics["kinds"]["node.planned.v1"] == 3 and list(statistics["days"]) == ["2001-09-09"]
    assert "node.planned.v1" in kernelswarm("log", "stats").out


def test_tail_shows_the_end(recorded: Path, kernelswarm: Command) -> None:
    write_session(recorded, "other-1", events=2)
    lines = kernelswarm("log", "tail", "-n", "3").out.splitlines()
    assert len(lines) == 3 and "session.closed.v1" in lines[0] and "other-1" in lines[2]
    chosen = kernelswarm("log", "tail", "--session", SESSION, "--kind", "diagnosed", "--json").out.splitlines()
    assert [decode_envelope(line.encode()).node for line in chosen] == ["n001", "n002", "n003"]
    assert kernelswarm("log", "tail", "-n", "0").out == ""
    assert kernelswarm("log", "tail", "--kind", "nothing").out == ""
    assert kernelswarm("log", "tail", "--session", SESSION, "--kind", "nothing").out == ""
    refused = kernelswarm("log", "tail", "--session", f"{SESSION}x")
    assert refused.status == 2 and f"did you mean {SESSION!r}?" in refused.err


def test_tail_follows_until_it_is_interrupted(home: Path, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "kernelswarm.cli", "log", "tail", "-f", "--json"]
    environment = {**os.environ, "KERNELSWARM_HOME": str(home)}
    write_session(tmp_path / "made")
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        home.mkdir(exist_ok=True)
        log_path(tmp_path / "made").rename(log_path(home))
        first = decode_envelope(process.stdout.readline().encode())
        assert first.session == SESSION
        while decode_envelope(process.stdout.readline().encode()).tag != "session.closed.v1":
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) in (0, 130)
    finally:
        process.kill()
        process.communicate()


def test_export_says_what_it_wrote(recorded: Path, kernelswarm: Command, tmp_path: Path) -> None:
    ran = kernelswarm("export", "--format", "sft", "--out", tmp_path / "sft")
    assert (ran.status, ran.out) == (0, f"2 rows from 1 session in {tmp_path / 'sft'}\n")
    manifest = json.loads(kernelswarm("export", "-f", "events", "-o", tmp_path / "events", "--json").out)
    assert manifest["format"] == "events" and manifest["sessions"] == 1
    for arguments, sentence in (
        (["-f", "sft", "-o", tmp_path / "sft"], "is not empty"),
        (["-f", "sft", "-o", tmp_path / "x", "--session", "rmsnorm-7kq2x"], f"did you mean '{SESSION}'"),
        (["-f", "sft", "-o", tmp_path / "x", "--where", "nonsense = 1"], "nonsense"),
        (["-f", "csv", "-o", tmp_path / "x"], "csv"),
    ):
        ran = kernelswarm("export", *arguments)
        assert ran.status == 2 and sentence in ran.err
    assert not (tmp_path / "x").exists()


def test_nothing_to_export_is_said(home: Path, kernelswarm: Command, tmp_path: Path) -> None:
    ran = kernelswarm("export", "--format", "sft", "--out", tmp_path / "x")
    assert ran.status == 2 and "nothing to export" in ran.err
