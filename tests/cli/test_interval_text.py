"""A ratio and its interval, as people read it."""

import pytest

import given
from kernelswarm.cli.display.summary import speedup_text
from kernelswarm.schemas import OUTSIDE, Interval
from kernelswarm.sessions.outside import verdicts


@pytest.mark.parametrize(
    ("low", "median", "high", "shown"),
    [
        (1.1, 1.2, 1.3, "1.20x (1.10 to 1.30)"),
        (0.8, 0.99, 1.2, "0.99x (0.80 to 1.20)"),
        (0.0, 2.99, 4951.0, "too noisy (0.00 to 4951.00)"),
        (0.13, 0.37, 1.01, "too noisy (0.13 to 1.01)"),
        (2.0, 6.0, 30.0, "6.00x (2.00 to 30.00)"),
    ],
)
def test_a_ratio_that_says_nothing_is_not_shown_as_a_finding(low, median, high, shown):
    assert str(Interval(low=low, median=median, high=high)) == shown


def test_noise_is_shown_to_people_as_such_without_its_ends():
    noise, finding = Interval(low=0.0, median=3.0, high=3365.09), Interval(low=1.1, median=1.2, high=1.3)
    assert (noise.cells, noise.in_words, noise.ratio_in_words) == (("too noisy", ""), *["too noisy to tell"] * 2)
    assert (finding.in_words, finding.ratio_in_words) == ("1.20x (1.10 to 1.30)", "1.20x")
    assert finding.cells == ("1.20x", "1.10 to 1.30")
    assert speedup_text(3.0, 0.0, 3365.09) == "too noisy to tell" and not speedup_text(None, None, None)


def test_what_says_nothing_is_gone_on_from_at_its_low_end():
    noise, finding = Interval(low=0.5, median=3.0, high=9.0), Interval(low=1.1, median=1.2, high=1.3)
    assert (noise.cautious, noise.brief) == (0.5, "too noisy (0.50 to 9.00)")
    assert (finding.cautious, finding.brief) == (1.2, "1.20x")


@pytest.mark.parametrize(
    ("low", "median", "high", "load", "shown"),
    [
        (3.64, 6.85, 12.91, 0.51, "timed once, beside a background load of 51% and with a wide interval"),
        (3.64, 6.85, 12.91, 0.0, "timed once, with a wide interval"),
        (1.5, 2.0, 2.5, 0.2, "timed once, beside a background load of 20%"),
        (0.8, 1.2, 1.9, 0.1, ""),
        (0.1, 1.0, 9.0, 0.9, ""),
    ],
    ids=["both", "wide", "load", "neither", "noise"],
)
def test_what_speaks_against_a_ratio_that_was_timed_once(low, median, high, load, shown):
    assert Interval(low=low, median=median, high=high).doubts(load) == shown


WIDE = Interval(median=17.0, low=1.06, high=285.0)


@pytest.mark.parametrize(
    ("speedup", "is_confirmed", "is_faster"),
    [(WIDE, False, False), (Interval(median=2.0, low=1.06, high=6.0), False, True), (WIDE, True, True)],
    ids=["wide", "narrow", "wide, and timed again as a finalist"],
)
def test_of_one_run_so_wide_an_interval_is_not_said_to_be_faster(
    speedup: Interval, is_confirmed: bool, is_faster: bool
) -> None:
    first = given.opened(synthesizer=OUTSIDE, confirmations=3)
    graph = given.graph_with(("n001", given.diagnosed(1.06, speedup=speedup)), first=first)
    if is_confirmed:
        event = given.diagnosed(1.06, speedup=speedup, confirmation=True, ordinary=given.interval(1.3))
        graph.apply(given.envelope_of(event, node="n001", index=9), event)
    answer = verdicts.node_answer(graph, "n001")
    assert (answer.correct, answer.faster, answer.win, answer.noisy) == (True, is_faster, is_confirmed, False)
