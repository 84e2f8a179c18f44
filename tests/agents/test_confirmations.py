"""The planner's confirmations: a win needs ordinary processes as well, and a finalist near 1 is timed again."""

import pytest
from msgspec.structs import replace
from planner_ring import Ring

import given
from kernelswarm.agents.planner.machine import Decision
from kernelswarm.agents.planner.ways_out import ways_out
from kernelswarm.schemas import ConfirmationPlanned, Interval, SessionClosed, StopRequested


def confirmed(ring: Ring, node: str, speedup: float, ordinary: "float | None", **changes: object) -> list[Decision]:
    """Answer the first confirmation of ``node``."""
    interval = None if ordinary is None else given.interval(ordinary)
    fields = dict(confirmation=True, ordinary=interval, ordinary_against="compile" if interval else "") | changes
    return ring.tell(given.diagnosed(speedup, **fields), node)


def of_one_candidate(**opened: object) -> Ring:
    ring = Ring(budget=1, **opened)
    ring.tell(given.diagnosed(1.5), "n001")
    return ring


def test_a_win_is_reported_with_the_ordinary_ratio_and_keeps_the_judges() -> None:
    (closing,) = confirmed(of_one_candidate(), "n001", 1.5, 1.3)
    closed = closing.event
    assert isinstance(closed, SessionClosed) and closed.win
    assert (closed.speedup, closed.judged) == (given.interval(1.3), given.interval(1.5))
    assert (closed.against, closed.judged_against) == ("compile", "compile")
    assert "1.30x (1.27 to 1.33) as fast as torch.compile in ordinary processes" in closed.detail
    assert "1.50x (1.47 to 1.53) of torch.compile by the judge" in closed.detail


@pytest.mark.parametrize(("against", "closer_diagnoses", "says"), [("eager", 1, 1), ("compile", 1, 0), ("eager", 0, 0)])
def test_a_sentence_that_names_two_baselines_says_why(against: str, closer_diagnoses: int, says: int) -> None:
    ring = of_one_candidate(closer_diagnoses=bool(closer_diagnoses))
    (closing,) = confirmed(ring, "n001", 1.5, 1.3, ordinary_against=against)
    assert isinstance(closing.event, SessionClosed)
    reason = "; each number is against the baseline that was the fastest there"
    assert closing.event.detail.count(reason) == says


@pytest.mark.parametrize(("judged", "ordinary"), [(1.5, 0.9), (0.9, 1.5)])
def test_one_ratio_below_1_is_no_win(judged: float, ordinary: float) -> None:
    (closing,) = confirmed(of_one_candidate(confirmations=3), "n001", judged, ordinary)
    assert isinstance(closing.event, SessionClosed) and not closing.event.win
    assert closing.event.wins == 0 and closing.event.detail.startswith("no win found")


def test_what_is_too_noisy_stands_at_nothing() -> None:
    noise = given.interval(1.5, 0.9)
    assert noise.is_noise
    (closing,) = of_one_candidate().tell(given.diagnosed(1.5, confirmation=True, speedup=noise), "n001")
    assert isinstance(closing.event, SessionClosed)
    assert closing.event.detail.startswith(
        "no win found: the best candidate's time is too noisy (0.15 to 2.85) against"
    )


def test_what_could_not_be_timed_in_ordinary_processes_is_no_win_and_says_why() -> None:
    (closing,) = confirmed(of_one_candidate(confirmations=3), "n001", 1.5, None, ordinary_missing="no compiler there")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win
    assert "n001 was not timed in ordinary processes: no compiler there" in closing.event.detail


@pytest.mark.parametrize(
    ("passes_over_slower", "ordinary", "best"), [(True, 0.33, "n001"), (False, 0.33, "n002"), (True, 0.99, "n002")]
)
def test_who_is_surely_slower_stands_before_nobody(passes_over_slower: bool, ordinary: float, best: str) -> None:
    """A file that took three times what the reference takes was handed in as the fastest one: it alone was timed so."""
    ring = Ring(budget=2, confirmations=2, passes_over_slower=passes_over_slower)
    for node, speedup in (("n001", 1.28), ("n002", 1.2)):
        ring.tell(given.diagnosed(speedup), node)
    confirmed(ring, "n001", 1.28, None, ordinary_missing="its time is over")
    (closing,) = confirmed(ring, "n002", 1.2, ordinary)
    assert isinstance(closing.event, SessionClosed) and (closing.event.best, closing.event.win) == (best, False)


def test_what_was_interrupted_before_it_was_confirmed_is_no_win() -> None:
    ring = Ring(budget=2, confirmations=3)
    ring.tell(given.diagnosed(1.5), "n001")
    (closing,) = ring.tell(StopRequested(reason="interrupted"), "")
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.best, closing.event.win, closing.event.wins) == ("n001", False, 0)
    assert closing.event.detail.startswith("no win found: n001 stands at 1.50x")
    assert closing.event.detail.endswith("it ended before a second run confirmed that")


@pytest.mark.parametrize("heeds_interrupts", [True, False])
@pytest.mark.parametrize("finishing", ["budget", "minutes"])
def test_an_interrupt_among_confirmations_is_the_reason_of_the_close(heeds_interrupts: bool, finishing: str) -> None:
    """It ended with exit status 0, as if the search had ended by itself. Older sessions replay as they were."""
    ring = Ring(budget=2, minutes=4.0, heeds_interrupts=heeds_interrupts)
    ring.tell(given.diagnosed(1.5), "n001")
    if finishing == "minutes":
        ring.tell(StopRequested(reason="minutes"))
    ring.tell(given.diagnosed(1.4), "n002")
    assert ring.state.finishing == finishing and ring.state.confirming
    (closing,) = ring.tell(StopRequested(reason="interrupted"))
    assert isinstance(closing.event, SessionClosed) and closing.event.best == "n001"
    assert closing.event.reason == ("interrupted" if heeds_interrupts else finishing)


LOST = {
    "the judge decides": ((0.9, 1.5), "n001 stands at 0.90x (0.88 to 0.92) of torch.compile by the judge (1.50x (1.47"),
    "ordinary processes": (
        (1.5, 0.9),
        "n001 stands at 0.90x (0.88 to 0.92) of eager in ordinary processes (1.50x (1.47",
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_without_a_win_the_number_that_decided_comes_first(case: str) -> None:
    (judged, ordinary), beginning = LOST[case]
    ring = of_one_candidate(explains_losses=True)
    (closing,) = confirmed(ring, "n001", judged, ordinary, ordinary_against="eager")
    assert isinstance(closing.event, SessionClosed)
    assert closing.event.detail.startswith(f"no win found: {beginning}")
    assert closing.event.detail.endswith(
        "; a win needs both intervals above 1, and all of this one lies below; what may help: more candidates "
        "(--budget 2), another author (--author) or another shape in the problem"
    )


UNDECIDED = {
    "near 1": (given.interval(1.01), "and this one begins at 0.9898; what may help: a run while less else is at work"),
    "noise": (given.interval(1.5, 0.9), "and this one is 0.15 to 2.85, more than a factor of 6; what may help: a run"),
}


@pytest.mark.parametrize("case", UNDECIDED)
def test_where_an_interval_leaves_it_open_a_calmer_machine_may_help(case: str) -> None:
    interval, sentence = UNDECIDED[case]
    ring = of_one_candidate(explains_losses=True)
    (closing,) = ring.tell(given.diagnosed(1.0, confirmation=True, speedup=interval), "n001")
    assert isinstance(closing.event, SessionClosed)
    assert f"a win needs an interval above 1, {sentence}" in closing.event.detail


def test_near_the_roofline_nothing_else_is_proposed() -> None:
    near = ways_out(given.opened(), "budget", given.interval(1.01), 0.96)
    assert near == "it reaches 96% of the roofline, so that hardly any kernel is faster at this shape"
    shapes = tuple(replace(given.facts().shapes[0], name=name, weight=1.0) for name in ("main", "decode"))
    several = given.opened(facts=given.facts(shapes=shapes))
    assert ways_out(several, "budget", given.interval(1.01), 0.96).endswith(" at these shapes")
    for fraction in (None, 0.5, 1.2):
        assert "more candidates" in ways_out(given.opened(), "budget", given.interval(1.01), fraction)


def test_what_may_help_is_what_it_ended_for() -> None:
    for opened, reason, helps in (
        ({"minutes": 4.0}, "minutes", "more time (--minutes 8), another author"),
        ({}, "exhausted", "help: another author (--author) or another shape"),
        ({}, "stall", "more candidates (--budget 24), another author"),
    ):
        assert helps in ways_out(given.opened(**opened), reason)
    assert not ways_out(given.opened(candidates=("",)), "budget"), "whoever hands in a file knows what to change"
    assert not ways_out(given.opened(), "interrupted"), "nobody knows yet what it takes"


def test_the_best_is_the_one_that_wins_in_ordinary_processes() -> None:
    ring = Ring(budget=3)
    for node in ("n001", "n002", "n003"):
        ring.tell(given.diagnosed(1.5), node)
    confirmed(ring, "n001", 1.9, 0.8)
    confirmed(ring, "n002", 1.5, 1.2)
    (closing,) = confirmed(ring, "n003", 1.4, 1.3)
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.best, closing.event.win) == ("n003", True)


def test_without_a_win_one_fast_number_does_not_make_up_for_a_slow_one() -> None:
    ring = Ring(budget=2)
    for node in ("n001", "n002"):
        ring.tell(given.diagnosed(1.5), node)
    confirmed(ring, "n001", 0.6, 4.5)
    (closing,) = confirmed(ring, "n002", 0.9, 1.2)
    assert isinstance(closing.event, SessionClosed)
    assert (closing.event.best, closing.event.win) == ("n002", False)


@pytest.mark.parametrize(("cautious", "best"), [(True, "n002"), (False, "n001")])
def test_without_a_win_the_best_is_none_that_is_too_noisy(cautious: bool, best: str) -> None:
    ring = Ring(budget=2, cautious=cautious)
    for node in ("n001", "n002"):
        ring.tell(given.diagnosed(1.5), node)
    noise = Interval(median=3.0, low=0.4, high=9.0)
    ring.tell(given.diagnosed(3.0, confirmation=True, speedup=noise, ordinary=noise), "n001")
    (closing,) = confirmed(ring, "n002", 0.9, 0.95)
    assert isinstance(closing.event, SessionClosed) and not closing.event.win
    assert closing.event.best == best


def test_a_baseline_that_could_not_be_timed_is_named() -> None:
    (closing,) = confirmed(of_one_candidate(against="compile"), "n001", 1.5, None, against="eager")
    assert isinstance(closing.event, SessionClosed) and closing.event.win
    assert "as fast as eager" in closing.event.detail and "torch.compile could not be timed" in closing.event.detail


def processes(decisions: list[Decision]) -> "list[tuple[str, int]]":
    return [(d.node, d.event.processes) for d in decisions if isinstance(d.event, ConfirmationPlanned)]


def test_a_finalist_near_1_is_timed_in_more_processes_until_it_is_decided() -> None:
    ring = of_one_candidate(confirmations=3)
    wide = given.interval(1.05, 0.1)
    assert processes(ring.tell(given.diagnosed(1.05, speedup=wide, confirmation=True), "n001")) == [("n001", 8)]
    (closing,) = ring.tell(given.diagnosed(1.05, confirmation=True), "n001")
    assert isinstance(closing.event, SessionClosed) and closing.event.win


def test_a_finalist_that_stays_near_1_is_given_up_after_so_many_confirmations() -> None:
    ring = of_one_candidate(confirmations=3)
    near = given.diagnosed(1.5, ordinary=given.interval(1.03, 0.05), confirmation=True)
    assert processes(ring.tell(near, "n001")) == [("n001", 8)]
    assert processes(ring.tell(near, "n001")) == [("n001", 16)]
    (closing,) = ring.tell(near, "n001")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win


@pytest.mark.parametrize(
    "opened",
    [dict(confirmations=1), dict(), dict(confirmations=3, hopeless=True)],
    ids=["once", "as older sessions", "hopeless"],
)
def test_no_more_samples_are_taken(opened: "dict[str, object]") -> None:
    median = 0.99 if opened.pop("hopeless", False) else 1.05
    ring = of_one_candidate(**opened)
    (closing,) = ring.tell(given.diagnosed(median, speedup=given.interval(median, 0.1), confirmation=True), "n001")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win


def test_a_finalist_that_wins_ends_the_sampling_of_the_others() -> None:
    ring = Ring(budget=3, confirmations=3)
    for node in ("n001", "n002", "n003"):
        ring.tell(given.diagnosed(1.5), node)
    for node in ("n001", "n002"):
        ring.tell(given.diagnosed(1.05, speedup=given.interval(1.05, 0.1), confirmation=True), node)
    (closing,) = ring.tell(given.diagnosed(1.2, confirmation=True), "n003")
    assert isinstance(closing.event, SessionClosed) and (closing.event.best, closing.event.win) == ("n003", True)


def test_no_further_samples_once_the_time_is_over() -> None:
    ring = Ring(budget=3, confirmations=3)
    ring.tell(given.diagnosed(1.5), "n001")
    ring.tell(StopRequested(reason="minutes"))
    ring.state.in_flight.clear()
    near = given.diagnosed(1.05, speedup=given.interval(1.05, 0.1), confirmation=True)
    ring.state.confirming = ["n001"]
    (closing,) = ring.tell(near, "n001")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win


def test_a_baseline_that_was_not_compared_is_named_where_the_win_is() -> None:
    why = {"max_autotune": "it was still being compiled"}
    (closing,) = confirmed(of_one_candidate(), "n001", 1.5, 1.3, absent=why)
    assert isinstance(closing.event, SessionClosed) and closing.event.win
    assert "max-autotune was not compared: it was still being compiled" in closing.event.detail
    (closing,) = confirmed(of_one_candidate(), "n001", 1.5, 1.3)
    assert "was not compared" not in closing.event.detail


def test_a_session_whose_minutes_end_while_it_confirms_confirms_no_more() -> None:
    near = given.diagnosed(1.05, speedup=given.interval(1.05, 0.1), confirmation=True)
    ring = of_one_candidate(confirmations=3, hopeless_below=0.9)
    assert ring.state.finishing == "budget" and ring.state.confirming == ["n001"]
    assert processes(ring.tell(near, "n001")) == [("n001", 8)]
    ring.tell(StopRequested(reason="minutes"))
    (closing,) = ring.tell(near, "n001")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win
