"""`kernelswarm sql` beyond one query: the library, files, parameters, the log as it was; and the same from Python."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from logged import SESSION

import kernelswarm as api
from kernelswarm.schemas import InputError


def test_the_library_is_listed_without_a_log(kernelswarm: Callable[..., Any], home: Path) -> None:
    ran = kernelswarm("sql", "--list")
    assert ran.status == 0 and "gains_by_diagnosis  Which diagnosis led to the biggest gains?" in ran.out
    assert "--set device=…" in ran.out and "kernelswarm sql --question NAME" in ran.err
    listed = json.loads(kernelswarm("sql", "--list", "--format", "json").out)
    assert len(listed) >= 20 and {"name", "title", "meaning", "columns", "parameters", "sql"} <= set(listed[0])


def test_a_question_with_its_parameters(kernelswarm: Callable[..., Any], recorded: Path) -> None:
    (row,) = json.loads(kernelswarm("sql", "-q", "gains_by_diagnosis", "--set", "device=test%", "-f", "json").out)
    assert (row["bottleneck"], row["children"], row["median_gain"]) == ("memory_traffic", 1, 1.6)
    shown = kernelswarm("sql", "--question", "wins_by_problem", "--format", "table")
    assert "rmsnorm" in shown.out and "confirmed win" in shown.err


def test_a_file_with_parameters(kernelswarm: Callable[..., Any], recorded: Path, tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("-- mine\nSELECT node FROM nodes WHERE speedup > $least AND session = $session ORDER BY node\n")
    command = ("sql", "--file", file, "--set", f"session={SESSION}", "--set")
    assert kernelswarm(*command, "least=1.5").out == "node\nn002\n"
    assert kernelswarm(*command, "least=1").out == "node\nn001\nn002\n"


def test_the_log_as_it_was(kernelswarm: Callable[..., Any], recorded: Path) -> None:
    count = ("sql", "SELECT status, candidates FROM sessions", "--as-of")
    assert kernelswarm(*count, "9").out == "status,candidates\nopen,1\n"
    assert kernelswarm(*count, "2100-01-01").out == "status,candidates\nclosed,3\n"
    refused = kernelswarm(*count, "soon")
    assert (refused.status, refused.out) == (2, "") and "'soon' is no point of the log" in refused.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "sql needs one of"),
        (("SELECT 1", "--question", "idle_time"), "sql needs one of"),
        (("--question", "idle_tim"), "did you mean 'idle_time'?"),
        (("idle_time",), "kernelswarm sql --question idle_time"),
        (("idle_tim",), "did you mean 'idle_time'?"),
        (("--question", "idle_time", "--set", "a=1"), "has no parameter 'a'"),
        (("SELECT 1", "--set", "a"), "NAME=VALUE"),
        (("--file", "/no/such.sql"), "cannot be read"),
        (("SELECT count(*) FROM range(1000000000000)", "--timeout", "0.2"), "longer than 0.2 s"),
        (("SELECT $a",), "refused"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], message: str, kernelswarm: Callable[..., Any], recorded: Path
) -> None:
    ran = kernelswarm("sql", *arguments)
    assert (ran.status, ran.out) == (2, "") and message in ran.err and "Traceback" not in ran.err


def test_from_python(recorded: Path) -> None:
    assert api.sql("SELECT count(*) AS n FROM nodes WHERE node <> ?", ["n001"]).records() == [{"n": 2}]
    assert api.sql("SELECT count(*) FROM events", as_of="4").rows == ((4,),)
    library = {question.name: question for question in api.questions()}
    assert api.sql(library["tried_on_operator"], {"operator": "%mean%"}).records()[0]["problem"] == "rmsnorm"
    with pytest.raises(InputError, match="can only be read"):
        api.sql("DELETE FROM events")
