"""fork and lineage on the command line, as far as they need no search; the searches are in tests/agents."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from logged import SESSION


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fork", SESSION], "name what to go on from"),
        (["fork", SESSION[:-1], "--node", "n001"], f"did you mean '{SESSION}'"),
        (["fork", SESSION, "--node", "n007"], "no node 'n007'; there is n001 to n003"),
        (["fork", SESSION, "--node", "n1"], "no node 'n1'"),
        (["fork", SESSION, "--at", "zz"], "no event 'zz'"),
        (["fork", SESSION, "--node", "n001", "--budget", "0"], "budget 0"),
        (["fork", SESSION, "--node", "n001", "--policy", "gready"], "unknown policy 'gready'"),
        (["fork", SESSION, "--node", "n001", "--pool", "moon"], "'moon'"),
        (["fork", SESSION, "--node", "n001", "--no-workers"], "--no-workers needs --nats"),
        (["lineage", SESSION[:-1], "n001"], f"did you mean '{SESSION}'"),
        (["lineage", SESSION, "n009"], "no node 'n009'; there is n001 to n003"),
        (["optimize", "{problem}", "--inject", "1.5"], "inject 1.5"),
    ],
)
def test_a_slip_costs_one_sentence(
    arguments: list[str], said: str, recorded: Path, kernelswarm: Callable[..., Any], tmp_path: Path
) -> None:
    problem = tmp_path / "p.py"
    problem.write_text("")
    ran = kernelswarm(*(argument.format(problem=problem) for argument in arguments))
    assert ran.status == 2 and said in ran.err.splitlines()[-1], ran.err


def test_the_way_to_a_node_is_told_from_its_root(recorded: Path, kernelswarm: Callable[..., Any]) -> None:
    steps = json.loads(kernelswarm("lineage", SESSION, "n002", "--json").out)
    assert [(step["node"], step["operation"]) for step in steps] == [("n001", "draft"), ("n002", "improve")]
    assert steps[1]["speedup"]["median"] == 2.0 and steps[1]["diagnosis"] == "as measured"
    shown = kernelswarm("lineage", SESSION, "n002").out
    assert shown.index("n001 draft") < shown.index("n002 improve") and "2.00x (1.96 to 2.04)" in shown
