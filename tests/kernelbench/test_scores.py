"""fast_p, the misses by cause, and how far a run is."""

import pytest
from benched import row

from kernelswarm.bench.kernelbench import Outcome, Row
from kernelswarm.bench.kernelbench.progress import progress_of
from kernelswarm.bench.kernelbench.score import fast_p, misses, scores

MISSING = {"eager_speedup": None, "eager_low": None, "compile_speedup": None, "compile_low": None}


@pytest.fixture
def rows() -> list[Row]:
    """A sure win, a median above 2 whose interval begins at 1.4, a slower one, and two that have no kernel."""
    return [
        row(1),
        row(2, eager_speedup=2.1, eager_low=1.4, compile_speedup=1.6, compile_low=1.55),
        row(3, eager_speedup=0.8, eager_low=0.7, cause="slower than eager", compile_speedup=0.7, compile_low=0.6),
        row(4, verdict=Outcome.refused, cause="refused: memory", **MISSING),
        row(5, verdict=Outcome.refused, cause="refused: memory", **MISSING),
    ]


@pytest.mark.parametrize(
    ("against", "p", "count", "surely"),
    [("eager", 1.0, 2, 2), ("eager", 1.5, 1, 0), ("eager", 2.0, 1, 0), ("compile", 1.0, 2, 1), ("compile", 1.5, 1, 1)],
)
def test_a_miss_counts_as_one_that_is_not_fast(
    rows: list[Row], against: str, p: float, count: int, surely: int
) -> None:
    score = fast_p(rows, against, p)
    assert (score.problems, score.count, score.surely) == (5, count, surely)
    assert (score.share, score.sure_share) == (count / 5, surely / 5)


def test_a_speedup_of_exactly_p_is_not_above_it() -> None:
    assert fast_p([row(eager_speedup=1.0, eager_low=1.0)], "eager", 1.0).count == 0


def test_nothing_scores_nothing() -> None:
    assert [score.share for score in scores([])] == [0.0] * 6


def test_ordinary_processes_come_first_where_they_were_timed(rows: list[Row]) -> None:
    timed = row(6, ordinary_eager_speedup=1.6, ordinary_eager_low=1.4, ordinary_compile_speedup=0.9)
    all_scores = scores([*rows, timed])
    assert [score.against for score in all_scores[::3]] == ["ordinary_eager", "ordinary_compile", "eager", "compile"]
    assert [score.count for score in all_scores[:4]] == [1, 1, 0, 0]


def test_what_is_slower_in_ordinary_processes_is_a_miss() -> None:
    assert not row(1).is_miss and row(1, ordinary_eager_low=0.98).is_miss


def test_misses_are_counted_by_cause(rows: list[Row]) -> None:
    assert [(miss.cause, miss.problems) for miss in misses(rows)] == [
        ("refused: memory", ("4_Problem", "5_Problem")),
        ("slower than eager", ("3_Problem",)),
    ]


def test_the_time_left_is_what_this_runs_problems_took(rows: list[Row]) -> None:
    assert progress_of(rows, 9, []).left_s is None
    assert progress_of(rows, 9, [10.0, 30.0], at_once=4).left_s == 20.0
    progress = progress_of(rows, 9, [10.0, 30.0])
    assert (progress.done, progress.fast, progress.fast_1, progress.left_s) == (5, 2, 0.4, 80.0)
