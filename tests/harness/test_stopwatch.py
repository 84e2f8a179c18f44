"""Which call of a timed batch has its output kept: chance decides, and nobody can tell before."""

import sys

import pytest

from kernelswarm.hardware.harness.calls.stopwatch import Stopwatch
from kernelswarm.hardware.harness.messages.timing import Time

CALLS, COPIES, BATCHES = 7, 3, 500


@pytest.fixture
def stopwatch() -> Stopwatch:
    stopwatch = Stopwatch()
    for copy in range(COPIES):
        stopwatch.add_inputs([copy])
    return stopwatch


def test_any_call_of_a_batch_may_be_the_one_and_its_inputs_are_named(stopwatch: Stopwatch) -> None:
    seen: list[int] = []
    positions = []
    for _ in range(BATCHES):
        seen.clear()
        timed, (at, copy) = stopwatch.run(lambda copy: (seen.append(copy), (len(seen) - 1, copy))[1], Time(calls=CALLS))
        assert timed.kept == copy == seen[at]
        assert len(seen) == CALLS
        positions.append(at)

    # A call that were never kept, or hardly ever, would be missing: by chance once in a thousand billion runs.
    assert set(positions) == set(range(CALLS))


def test_the_only_call_is_kept_and_untimed_ones_are_not(stopwatch: Stopwatch) -> None:
    calls: list[int] = []
    timed, output = stopwatch.run(lambda copy: (calls.append(copy), len(calls))[1], Time(calls=1, before=4, warm=2))

    assert output == len(calls) == 7
    assert timed.kept == calls[-1] == 0


def test_a_call_finds_nothing_that_names_the_moment(stopwatch: Stopwatch) -> None:
    snapshots = []

    def call(copy: int) -> int:
        snapshots.append(list(sys._getframe(1).f_locals["drawn"]))
        return copy

    stopwatch.run(call, Time(calls=CALLS))

    assert snapshots == [[]] * CALLS
