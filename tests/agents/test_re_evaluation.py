"""Replay with live effects: rankings then and now, and one real candidate evaluated again."""

from pathlib import Path

import histories
import pytest

import given
import kernelswarm
from kernelswarm.schemas import KernelswarmError, Verdict
from kernelswarm.sessions.re_evaluation import ReEvaluatedCandidate, compared, spearman


def re_evaluated(node: str, rank: int, then: float, now: float | None) -> ReEvaluatedCandidate:
    return ReEvaluatedCandidate(
        node=node,
        rank=rank,
        recorded=given.interval(then),
        against="compile",
        verdict=Verdict.correct if now else Verdict.wrong_numbers,
        now=given.interval(now) if now else None,
    )


def test_wins_are_kept_lost_and_new_and_the_ranking_changes() -> None:
    judged = [
        re_evaluated("n1", 1, 3.0, 1.5),
        re_evaluated("n2", 2, 2.0, 2.5),
        re_evaluated("n3", 3, 1.5, None),
        re_evaluated("n4", 4, 0.9, 1.2),
    ]
    comparison = compared("s", "here", "far", "there", judged)
    assert (comparison.wins_recorded, comparison.wins_kept, comparison.wins_new, comparison.best) == (3, 2, 1, "n2")
    assert [candidate.rank_now for candidate in comparison.candidates] == [2, 1, None, 3]
    assert comparison.rank_correlation == pytest.approx(spearman([4, 3, 2, 1], [3, 4, 1, 2]))


def test_rank_correlation_shares_ranks_among_ties_and_is_not_always_defined() -> None:
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(0.8660254)
    assert spearman([1], [1]) is None and spearman([1, 1], [1, 2]) is None


@pytest.mark.thorough
def test_recorded_candidates_are_evaluated_again(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "other.toml").write_text(
        'name = "other"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    (events,) = histories.read("v1-failures").values()
    histories.into_log(tmp_path, events)
    notices: list[str] = []
    report = kernelswarm.re_evaluate(events[0].session, pool="other", home=tmp_path, on_notice=notices.append)
    assert [entry.verdict for entry in report.candidates] == [Verdict.correct] and report.candidates[0].now is not None
    assert report.pool == "other" and report.best == "n001" and notices == ["n001: correct"]


def test_a_session_without_a_correct_candidate_has_nothing_to_re_evaluate(tmp_path: Path) -> None:
    (events,) = histories.read("v1-killed").values()
    histories.into_log(tmp_path, events[:3])
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "bare.toml").write_text('name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\n')
    with pytest.raises(KernelswarmError, match="no correct candidate"):
        kernelswarm.re_evaluate(events[0].session, home=tmp_path)
