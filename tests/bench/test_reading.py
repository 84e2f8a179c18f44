"""A closed session as a row."""

from collections.abc import Iterable

import pytest
from benched import row
from logged import SESSION, a_session, planned
from msgspec import structs

import given
from kernelswarm.bench.kernelbench import KernelBench
from kernelswarm.bench.runs import Outcome, Row, reading
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import ContractProperty, Event, HarnessError, ProfileReport, SessionClosed, Timing, Verdict

BLANK = Row(subset="1", number=2, problem="2_Problem", verdict=Outcome.running, pool="cpu", minutes_per_problem=2.0)


def folded(events: Iterable[tuple[Event, str]]) -> SearchGraph:
    graph = SearchGraph(SESSION)
    for index, (event, node) in enumerate(events):
        graph.apply(given.envelope_of(event, node=node, cause=str(index), session=SESSION), event)
    return graph


def read(*events: tuple[Event, str], reason: str = "budget") -> Row:
    """The row of a session of these events that closed without a kernel."""
    closed = SessionClosed(reason=reason, candidates=2, detail="no win found")
    return reading.row_of(BLANK, folded([(given.opened(), ""), *events, (closed, "")]), 3.21, KernelBench())


def test_the_best_kernel_counts() -> None:
    result = reading.row_of(BLANK, folded(a_session()), 3.21, KernelBench())
    assert (result.verdict, result.cause, result.node) == (Outcome.correct, "", "n002")
    assert (result.eager_speedup, result.eager_ms, result.kernel_ms) == (2.0, 2.0, 1.0)
    assert (result.compile_baseline, result.compile_speedup, result.compile_ms) == ("eager", 2.0, None)
    assert (result.candidates, result.correct, result.seconds) == (3, 2, 3.2)


def test_where_eager_could_not_be_timed_the_row_says_so() -> None:
    timing = Timing(series=(), speedup={"compile": given.interval(0.7)}, best="compile", median_ms={"compile": 0.7})
    graph = folded(a_session())
    graph.nodes["n002"].confirmation = ProfileReport(verdict=Verdict.correct, isolation="process", timing=timing)
    result = reading.row_of(BLANK, graph, 1.0, KernelBench())
    assert (result.verdict, result.cause) == (Outcome.no_correct_candidate, "eager was not timed")


@pytest.mark.parametrize(
    ("median", "spread", "cause"),
    [(1.2, 0.1, ""), (1.0, 0.1, "as fast as eager"), (1.05, 0.1, "as fast as eager"), (0.8, 0.1, "slower than eager")],
)
def test_a_kernel_that_is_not_surely_faster_is_a_miss(median: float, spread: float, cause: str) -> None:
    ratio = given.interval(median, spread)
    over_eager = {"eager_speedup": ratio.median, "eager_low": ratio.low, "eager_high": ratio.high}
    assert reading.why_slow(row(**over_eager, compile_speedup=3.0, compile_low=2.9, compile_high=3.1)) == cause


def test_the_faster_of_the_compiled_baselines_counts() -> None:
    times = {"eager": 4.0, "compile": 3.0, "max_autotune": 2.0, "candidate": 1.0}
    speedup = {name: given.interval(times[name]) for name in ("eager", "compile", "max_autotune")}
    timing = Timing(series=(), speedup=speedup, best="max_autotune", median_ms=times)
    events = [(event, node) for event, node in a_session()]
    graph = folded(events)
    profile = graph.nodes["n002"].confirmation or graph.nodes["n002"].profile_report
    assert profile is not None
    graph.nodes["n002"].confirmation = type(profile)(verdict=Verdict.correct, isolation="process", timing=timing)
    result = reading.row_of(BLANK, graph, 1.0, KernelBench())
    assert (result.compile_baseline, result.compile_speedup, result.eager_speedup) == ("max_autotune", 2.0, 4.0)
    assert (result.compile_ms, result.max_autotune_ms) == (3.0, 2.0)


def test_what_was_not_compared_with_torch_compile_is_no_win() -> None:
    """A session ran out of time while torch.compile was being compiled: 2.15x of eager was counted as over both."""
    graph = folded(a_session())
    absent = {"compile": "it was still being compiled when the candidate was timed"}
    timing = structs.replace(given.against_all(1.0, eager=2.15), absent=absent, pending=("compile",))
    graph.nodes["n002"].confirmation = ProfileReport(verdict=Verdict.correct, isolation="", timing=timing)
    result = reading.row_of(BLANK, graph, 1.0, KernelBench())
    assert (result.verdict, result.eager_speedup, result.compile_speedup) == (Outcome.correct, 2.15, None)
    assert (result.cause, result.is_miss) == ("torch.compile was still being compiled", True)
    assert result.speedup("best") is None is result.speedup("call_compile")


def test_a_kernel_whose_file_is_no_drop_in_is_no_win() -> None:
    graph = folded(a_session())
    broken = ContractProperty(name="state", ok=False, is_essential=True, detail="value 43 errs by 11.5")
    timing = given.against_all(1.0, eager=1.6, compile=1.2)
    graph.nodes["n002"].confirmation = ProfileReport(
        verdict=Verdict.correct, isolation="", timing=timing, contract=(broken,)
    )
    result = reading.row_of(BLANK, graph, 1.0, KernelBench())
    assert (result.verdict, result.cause, result.is_miss) == (Outcome.correct, "no drop-in: state", True)
    assert result.compile_speedup == 1.2 and result.speedup("best") is None


def test_ordinary_processes_are_read_beside_the_judge_and_decide() -> None:
    events = [(event, node) for event, node in a_session()]
    graph = folded(events)
    timing = given.against_all(1.0, eager=4.0, compile=2.0)
    graph.nodes["n002"].confirmation = ProfileReport(
        verdict=Verdict.correct, isolation="", timing=timing, ordinary=given.against_all(1.0, eager=0.9, compile=0.8)
    )
    result = reading.row_of(BLANK, graph, 1.0, KernelBench())
    assert (result.ordinary_eager_speedup, result.ordinary_compile_speedup, result.eager_speedup) == (0.9, 0.8, 4.0)
    assert (result.cause, result.is_miss) == ("slower than the best compile", True)


def test_the_commonest_fault_is_the_cause() -> None:
    faults = [Verdict.synthesis_failed, Verdict.wrong_numbers, Verdict.synthesis_failed]
    events = [(given.diagnosed(verdict=fault), f"n{number}") for number, fault in enumerate(faults)]
    assert read(*events).cause == "no correct candidate: wrong_numbers"
    assert read(events[0]).cause == "no candidate written"
    assert read().cause == "no candidate"


def test_what_was_not_judged_in_time_is_a_timeout() -> None:
    wrong = (given.diagnosed(verdict=Verdict.wrong_numbers), "n001")
    assert read(wrong, reason="minutes").verdict is Outcome.no_correct_candidate
    late = read(wrong, planned("n002", 2), reason="minutes")
    assert (late.verdict, late.cause) == (Outcome.timeout, "timeout")
    judged = "not done within 2 minutes; 1 of 2 candidates were not judged yet"
    assert late.detail == f"{judged}: n002 was being written, no baselines to time against"
    assert reading.with_validation(late, 90.0).detail.endswith("; validation took 90 s of 120")
    assert reading.with_validation(late, 5.0) == late
    assert read(planned("n001", 1), reason="interrupted").verdict is Outcome.timeout


@pytest.mark.parametrize(
    ("sentence", "cause"),
    [
        ("relu.py does not fit in memory", "refused: memory"),
        ("relu.py is not deterministic: …", "refused: not deterministic"),
        ("something new", "refused"),
    ],
)
def test_refusals_are_counted_by_what_they_say(sentence: str, cause: str) -> None:
    result = reading.refused(row(), sentence + "\nmore", 1.0)
    assert (result.verdict, result.cause, result.detail) == (Outcome.refused, cause, sentence + " more")


def test_what_broke_is_named() -> None:
    message = "no baseline\ncan be timed\nTraceback (most recent call last):\n  File somewhere"
    result = reading.crashed(BLANK, HarnessError(message), 1.0)
    assert (result.cause, result.detail) == ("crash: HarnessError", "no baseline can be timed")


def test_where_tf32_rounds_is_told() -> None:
    gpu, facts = given.pool(name="h200", platform="nvidia", languages=("triton",)), given.facts()
    assert reading.tf32_of(given.pool(), facts, "") == "none"
    assert reading.tf32_of(gpu, facts, "") == "convolutions (torch's default)"
    assert reading.tf32_of(gpu, given.facts(dtype="float16"), "") == "none"
    assert reading.tf32_of(gpu, facts, "torch.backends.cuda.matmul.allow_tf32 = True") == "as the file sets it"
