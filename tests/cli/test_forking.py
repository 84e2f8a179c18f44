"""fork and lineage on the command line, as far as they need no search; the searches are in tests/agents."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import histories
import pytest
from logged import SESSION

from kernelswarm.store import log_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fork", SESSION], "name what to go on from"),
        (["fork", SESSION[:-1], "--node", "n001"], f"did you mean '{SESSION}'"),
        (["fork", SESSION, "--node", "n007"], "no node 'n007'; there is n001 to n003"),
        (["fork", SESSION, "--node", "n1"], "no node 'n1'"),
        (["fork", SESSION, "--at", "zz"], "no event 'zz'"),
        (["fork", SESSION, "--node", "n001", "--budget", "0"], "budget 0"),
        (["fork", SESSION, "--node", "n001", "--against", "both"], "against 'both'"),
        (["fork", SESSION, "--node", "n001", "--measure", "both"], "measure 'both'"),
        (["fork", SESSION, "--node", "n001", "--policy", "gready"], "unknown policy 'gready'"),
        (["fork", SESSION, "--node", "n001", "--pool", "moon"], "'moon'"),
        (["fork", SESSION, "--node", "n001", "--no-workers"], "--no-workers needs --nats"),
        (["lineage", SESSION[:-1], "n001"], f"did you mean '{SESSION}'"),
        (["lineage", SESSION, "n009"], "no node 'n009'; there is n001 to n003"),
        (["optimize", "{problem}", "--inject", "1.5"], "inject 1.5"),
    ],
)
def test_a_slip_costs_one_sentence(
    arguments: list[str], message: str, recorded: Path, kernelswarm: Callable[..., Any], tmp_path: Path
) -> None:
    problem = tmp_path / "p.py"
    problem.write_text("")
    ran = kernelswarm(*(argument.format(problem=problem) for argument in arguments))
    assert ran.status == 2 and message in ran.err.splitlines()[-1], ran.err


def test_the_way_to_a_node_is_told_from_its_root(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    steps = json.loads(kernelswarm("lineage", SESSION, "n002", "--json").out)
    assert [(step["node"], step["operation"]) for step in steps] == [("n001", "draft"), ("n002", "improve")]
    assert steps[1]["speedup"]["median"] == 2.0 and steps[1]["diagnosis"] == "as measured"
    shown = kernelswarm("lineage", SESSION, "n002").out
    assert shown.index("n001 draft") < shown.index("n002 improve") and "2.00x (1.96 to 2.04)" in shown


def test_a_fork_without_the_session_that_it_comes_from_says_which_one_is_missing(
    home: Path, kernelswarm: Callable[..., Any]
) -> None:
    (first, _), (second, middle), (third, last) = histories.read("v1-forked").items()
    histories.into_log(home, last)
    for command in (["replay", third], ["fork", third, "--node", "n006"], ["diff", third, third]):
        ran = kernelswarm(*command)
        assert (ran.status, ran.out) == (2, "")
        assert f"session {third} is a fork and needs session {second}, which is not in this log" in ran.err
    histories.into_log(home, middle)
    assert f"session {third} is a fork and needs session {first}, which" in kernelswarm("replay", third).err


def test_a_fork_of_a_session_that_was_changed_is_not_replayed(home: Path, kernelswarm: Callable[..., Any]) -> None:
    sessions = histories.read("v1-forked")
    histories.into_log(home, [envelope for events in sessions.values() for envelope in events])
    with duckdb.connect(log_path(home)) as con:
        con.execute("DROP TRIGGER no_update ON events")
        con.execute("UPDATE events SET at_ns = at_ns + 1 WHERE seq = 3")
    for session in sessions:
        ran = kernelswarm("replay", session)
        assert (ran.status, ran.out) == (2, "") and "The log is damaged from event 3 " in ran.err
