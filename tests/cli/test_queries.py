"""sessions, show and sql over a log that no search is writing, and over one that is being written."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from logged import SESSION, SOURCE, write_session

import given
from kernelswarm.cli.commands import pools
from kernelswarm.cli.display.formatting import as_csv, as_json, unique
from kernelswarm.schemas import PoolError
from kernelswarm.store import Table, log_path
from kernelswarm.store.database import open_database


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [(["sessions"], ""), (["sql", "SELECT count(*) AS n FROM sessions"], "n\n0\n"), (["tasks", "list"], "")],
)
def test_without_a_log_there_is_a_friendly_word_and_no_failure(
    arguments: list[str], answer: str, home: Path, kernelswarm: Callable[..., Any]
) -> None:
    ran = kernelswarm(*arguments)
    assert (ran.status, ran.out.replace("\r", "")) == (0, answer)
    assert str(home) in ran.err and "kernelswarm optimize PROBLEM" in ran.err and not home.joinpath("log").exists()


def test_a_slip_in_sql_is_refused_without_a_log_as_well(kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("sql", "SELECT speedup FROM session")
    assert (ran.status, ran.out) == (2, "") and "session" in ran.err


def test_without_a_log_json_is_still_json(home: Path, kernelswarm: Callable[..., Any]) -> None:
    assert json.loads(kernelswarm("sessions", "--json").out) == []
    assert json.loads(kernelswarm("sql", "SELECT node FROM nodes", "--format", "json").out) == []
    assert json.loads(kernelswarm("tasks", "list", "--json").out) == []


def test_sessions_are_listed_newest_first(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    write_session(recorded, "rmsnorm-open2", events=9)
    ran = kernelswarm("sessions")
    header, *rows = ran.out.splitlines()
    assert ran.status == 0 and header.startswith("session")
    assert {row.split()[0] for row in rows} == {SESSION, "rmsnorm-open2"}
    assert any("closed (budget)" in row and "2.00x" in row and "1.96 to 2.04" in row and "3/3" in row for row in rows)
    assert any("open" in row and "1/3" in row for row in rows)
    newest = json.loads(kernelswarm("sessions", "--json", "--limit", "1").out)
    assert len(newest) == 1 and {"session", "problem", "pool", "status", "speedup"} <= set(newest[0])


def test_a_session_is_shown_as_a_tree(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("show", SESSION)
    assert ran.status == 0 and ran.err == ""
    assert "win  n002 is 2.00x as fast as eager" in ran.out
    assert "eager 2.000 ms" in ran.out and "n001 → n002" in ran.out
    lines = ran.out.splitlines()
    parent = next(index for index, line in enumerate(lines) if line.startswith("n001 draft"))
    assert lines[parent + 1].startswith("└── n002 improve 2.00x (1.96 to 2.04)")
    assert "compile error  line 7: expected ';' [-W]" in lines[parent + 2]


def test_an_open_session_says_how_far_it_is(home: Path, kernelswarm: Callable[..., Any]) -> None:
    write_session(home, events=9)
    assert "1 of 3 candidates so far" in kernelswarm("show", SESSION).out


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (4, "proposed; it waits for its compilation"),
        (6, "verified as correct, but not timed; it waits for its timing, in turns with the baselines"),
        (7, "profiled; it waits for its diagnosis"),
        (8, ""),
    ],
)
def test_a_node_without_a_verdict_says_what_it_waits_for(
    events: int, says: str, home: Path, kernelswarm: Callable[..., Any]
) -> None:
    write_session(home, events=events)
    shown = " ".join(kernelswarm("show", SESSION, "--node", "n001").out.split())
    assert f"next {says}" in shown if says else "next " not in shown


def test_a_node_is_shown_with_everything(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    shown = kernelswarm("show", SESSION, "--node", "n002").out
    for part in ("improve of n001", "one pass", "tile=8, fuse=True", "2.00x", "far from the floor", "reduce traffic"):
        assert part in shown
    refused = kernelswarm("show", SESSION, "--node", "n003").out
    assert "line 7: error: expected ';' [-W]" in refused


def test_source_is_the_file_and_nothing_else(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("show", SESSION, "--node", "n001", "--source")
    assert (ran.status, ran.out, ran.err) == (0, SOURCE, "")
    assert kernelswarm("show", SESSION, "--source").out == SOURCE


def test_the_finished_file_is_made_again_from_the_log(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("show", SESSION, "--file")
    assert (ran.status, ran.err) == (0, "") and SOURCE in ran.out
    assert f"session {SESSION}, node n002" in ran.out and "faster than eager: 2.00x (1.96 to 2.04)" in ran.out
    assert ran.out == kernelswarm("show", SESSION, "--file").out
    assert "node n001" in kernelswarm("show", SESSION, "--node", "n001", "--file").out


def test_an_open_session_has_no_finished_file_yet(home: Path, kernelswarm: Callable[..., Any]) -> None:
    write_session(home, events=9)
    assert "is still open: name a node with --node" in kernelswarm("show", SESSION, "--file").err
    assert SOURCE in kernelswarm("show", SESSION, "--file", "--node", "n001").out


def test_json_of_show_is_one_object(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    session = json.loads(kernelswarm("show", SESSION, "--json").out)
    assert session["session"]["best"] == "n002"
    assert [node["node"] for node in session["nodes"]] == ["n001", "n002", "n003"]
    node = json.loads(kernelswarm("show", SESSION, "--node", "n001", "--json").out)
    assert node["source"] == SOURCE and node["recipe"] == {"tile": 8, "fuse": True}
    assert [node["speedup"]["median"], node["speedup"]["low"]] == [node["node"]["speedup"], node["node"]["speedup_low"]]


ODD = """SELECT NULL AS nothing, '' AS empty, 'a,"b"
c' AS text, [1, 2] AS list, {'k': 0.1} AS struct, true AS yes, 0.1 AS tenth, 'x' AS text"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", SESSION),
        ("show", SESSION, "--node", "n002"),
        ("sessions",),
        ("sql", "SELECT 1"),
        ("lineage", SESSION, "n002"),
        ("diff", SESSION, SESSION),
        ("log", "stats"),
    ],
)
def test_a_command_opens_the_log_once(
    arguments: tuple[str, ...], recorded: Path, kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def counted(path: Path, **options: Any) -> Any:
        opened.append(path)
        return open_database(path, **options)

    monkeypatch.setattr("kernelswarm.store.log.open_database", counted)
    assert kernelswarm(*arguments).status == 0
    assert opened == [log_path(recorded)]


def test_sql_as_csv_loses_nothing(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    printed = kernelswarm("sql", ODD).out  # not a terminal, so CSV
    assert printed.splitlines()[1].startswith(',"","a,""b""')
    header, row = csv.reader(io.StringIO(printed))
    assert header == ["nothing", "empty", "text", "list", "struct", "yes", "tenth", "text"]
    assert row == ["", "", 'a,"b"\nc', "[1,2]", '{"k":0.1}', "true", "0.1", "x"]


def test_sql_as_a_table_steers_no_terminal(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("sql", "SELECT chr(27) || '[31mred' || chr(7) || chr(10) || 'two' AS a", "--format", "table")
    assert [line.rstrip() for line in ran.out.splitlines()] == ["a", "␛[31mred␇", "two"]


def test_sql_as_json_loses_nothing(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    (row,) = json.loads(kernelswarm("sql", ODD, "--format", "json").out)
    assert json.loads(kernelswarm("sql", ODD, "--json").out) == [row]
    assert kernelswarm("sql", ODD, "--json", "--format", "csv").status == 2
    assert row == {
        "nothing": None,
        "empty": "",
        "text": 'a,"b"\nc',
        "list": [1, 2],
        "struct": {"k": 0.1},
        "yes": True,
        "tenth": 0.1,
        "text_1": "x",
    }


def test_sql_as_a_table_shows_null(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    lines = kernelswarm("sql", "SELECT node, speedup FROM nodes ORDER BY node", "-f", "table").out.splitlines()
    assert [line.split() for line in lines] == [["node", "speedup"], ["n001", "1.25"], ["n002", "2"], ["n003", "NULL"]]


def test_rows_beyond_the_limit_are_announced(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("sql", "SELECT node FROM nodes ORDER BY node", "--limit", "2")
    assert ran.out == "node\nn001\nn002\n" and "only the first 2 rows" in ran.err


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nope FROM nodes", 'Referenced column "nope" not found'),
        ("SELEC 1", "Parser Error"),
        ("DELETE FROM events", "can only be read"),
        ("SELECT 1; SELECT 2", "One statement"),
        ("SELECT * FROM read_csv('/etc/passwd')", "refused"),
    ],
)
def test_what_sql_refuses_exits_with_2_and_duckdbs_words(
    query: str, message: str, recorded: Path, kernelswarm: Callable[..., Any]
) -> None:
    ran = kernelswarm("sql", query, "--format", "json")
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err and "Traceback" not in ran.err


def test_sql_reads_the_question_from_stdin(
    recorded: Path, kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT count(*) AS n FROM nodes"))
    assert kernelswarm("sql", "-").out == "n\n3\n"


def test_namesakes_are_numbered_past_names_that_are_taken() -> None:
    assert unique(("a", "a", "a_1", "a")) == ["a", "a_2", "a_1", "a_3"]


def test_no_rows_are_an_empty_array_and_a_bare_header() -> None:
    empty = Table(columns=("a", "b"), types=("INTEGER", "INTEGER"), rows=())
    assert as_csv(empty) == "a,b\n" and json.loads(as_json(empty)) == []


def test_a_finished_nodes_name_is_printed_whole_where_nobody_looks(
    recorded: Path, kernelswarm: Callable[..., Any]
) -> None:
    wide = kernelswarm("sql", "SELECT repeat('x', 500) AS x", "-f", "table").out
    assert "x" * 500 in wide and "\x1b" not in wide
    assert (
        given.SOURCE
        in json.loads(
            kernelswarm("sql", "SELECT body->>'$.problem.source' AS s FROM events LIMIT 1", "-f", "json").out
        )[0]["s"]
    )


def test_pools_say_what_is_known_and_why_one_is_not_served(
    kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "detect", lambda *_, **__: given.hardware(device="test [cpu]"))
    entry = json.loads(kernelswarm("pools", "--json").out)[0]
    assert entry["pool"]["name"] == "cpu" and entry["hardware"]["device"] == "test [cpu]"
    assert "test [cpu]" in kernelswarm("pools").out

    def refuse(*_: object, **__: object) -> None:
        raise PoolError("no C++ compiler found")

    monkeypatch.setattr(pools, "detect", refuse)
    assert "not here: no C++ compiler found" in kernelswarm("pools").out
