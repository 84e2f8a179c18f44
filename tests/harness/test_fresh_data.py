"""Slow calls on unseen data, one in each process: who keeps answers is told from who waits for a core."""

import pytest

from kernelswarm.hardware.harness.fresh_data import MOST_TRIES, TRIES, Memoizes, judge
from kernelswarm.schemas import HarnessError

KEEPS_ANSWERS = [Memoizes(41_000 + 5_000 * turn, 600 + 400 * (turn % 2)) for turn in range(TRIES)]
WAITS = [Memoizes(unseen * 1e3, seen * 1e3) for unseen, seen in ((3330, 193), (7318, 4521), (418, 218))] * TRIES


def test_who_keeps_answers_is_slow_in_every_process() -> None:
    for tries in range(1, TRIES):
        judge(KEEPS_ANSWERS[:tries])

    with pytest.raises(Memoizes, match="keeps answers"):
        judge(KEEPS_ANSWERS)


def test_who_waits_for_a_core_is_not_judged() -> None:
    for tries in range(1, MOST_TRIES):
        judge(WAITS[:tries])

    with pytest.raises(HarnessError, match="busy"):
        judge(WAITS[:MOST_TRIES])
