"""A few rounds as an operator runs them; ``make chaos ROUNDS=200`` is the real proof."""

import asyncio
import sys
from pathlib import Path

import pytest

from kernelswarm.tests.chaos import RoundResult, run_rounds

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="holds processes and looks for leftover processes as Linux does"
)


def test_nothing_is_lost_when_processes_die_and_a_connection_breaks(tmp_path: Path) -> None:
    reported: list[RoundResult] = []
    results = asyncio.run(run_rounds([1, 2], 130, ("recorder", "server", "cut"), tmp_path, reported.append))
    assert [(result.number, result.faults) for result in results] == [(1, ()), (2, ())]
    assert reported == results
    assert all(result.done and result.events > 8 for result in results)
    assert not list(tmp_path.iterdir()), "a fleet that passed leaves nothing"
