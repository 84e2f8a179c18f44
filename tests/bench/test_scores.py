"""fast_p, the misses by cause, and how far a run is."""

import pytest
from benched import row

from kernelswarm.bench.runs import Outcome, Row
from kernelswarm.bench.runs.progress import progress_of
from kernelswarm.bench.runs.reading import why_slow
from kernelswarm.bench.runs.score import fast_p, mean, mean_score, misses, scores

MISSING = {"eager_speedup": None, "eager_low": None, "compile_speedup": None, "compile_low": None}

OVER_COMPILE = {"compile_speedup": 1.15, "compile_low": 1.1, "compile_high": 1.2}
FAST = row(1, **OVER_COMPILE)


def ordinary(**ratios: float) -> dict[str, float]:
    """Cells of sharp ratios in ordinary processes."""
    return {f"ordinary_{name}_{end}": ratio for name, ratio in ratios.items() for end in ("speedup", "low", "high")}


@pytest.fixture
def rows() -> list[Row]:
    """A sure win, a median above 2 whose interval begins at 1.4, a slower one, and two that have no kernel."""
    return [
        FAST,
        row(
            2, eager_speedup=2.1, eager_low=1.4, eager_high=2.2, compile_speedup=1.6, compile_low=1.55, compile_high=1.7
        ),
        row(3, eager_speedup=0.8, eager_low=0.7, cause="slower than eager", compile_speedup=0.7, compile_low=0.6),
        row(4, verdict=Outcome.refused, cause="refused: memory", **MISSING),
        row(5, verdict=Outcome.refused, cause="refused: memory", **MISSING),
    ]


@pytest.mark.parametrize(
    ("against", "p", "count", "surely"),
    [
        ("eager", 1.0, 2, 2),
        ("eager", 1.5, 1, 0),
        ("eager", 2.0, 1, 0),
        ("compile", 1.0, 2, 2),
        ("best", 1.0, 2, 2),
        ("compile", 1.5, 1, 1),
    ],
)
def test_a_miss_counts_as_one_that_is_not_fast(
    rows: list[Row], against: str, p: float, count: int, surely: int
) -> None:
    score = fast_p(rows, against, p)
    assert (score.problems, score.count, score.surely) == (5, count, surely)
    assert (score.share, score.sure_share) == (count / 5, surely / 5)


def test_a_speedup_of_exactly_p_is_not_above_it() -> None:
    assert fast_p([row(eager_speedup=1.0, eager_low=1.0, eager_high=1.0)], "eager", 1.0).count == 0


def test_nothing_scores_nothing() -> None:
    assert [score.share for score in scores([])] == [0.0] * 9


def test_ordinary_processes_come_first_where_they_were_timed(rows: list[Row]) -> None:
    all_scores = scores([*rows, row(6, **OVER_COMPILE, **ordinary(eager=1.6, compile=0.9))])
    names = [score.against for score in all_scores[::3]]
    assert names == ["ordinary_best", "ordinary_eager", "ordinary_compile", "best", "eager", "compile"]
    assert [score.count for score in all_scores[:6]] == [0, 0, 0, 1, 1, 0]


def test_what_is_slower_in_ordinary_processes_is_a_miss() -> None:
    assert not FAST.is_miss and row(1, **OVER_COMPILE, **ordinary(eager=0.98, compile=1.2)).is_miss


def test_what_is_faster_than_eager_alone_is_a_miss() -> None:
    assert row(1).is_miss and why_slow(row(1)) == "as fast as the best compile"


def test_a_mean_takes_every_problem_and_a_miss_as_one(rows: list[Row]) -> None:
    assert mean([FAST, row(2), rows[-1]], "best").value == pytest.approx(1.15 ** (1 / 3))
    assert mean([FAST, rows[2]], "eager").value == pytest.approx(1.2**0.5)


def test_a_benchmarks_own_score_counts_what_has_none_as_nothing() -> None:
    assert mean_score([row(1)]) is None and mean_score([row(1, score=0.8), row(2)]) == 0.4


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
