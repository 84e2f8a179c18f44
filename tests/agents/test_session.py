"""Sessions from the outside: options refused, results and verdicts read off the graph."""

import re

import msgspec
import pytest

import given
from kernelswarm.agents.distiller import lesson
from kernelswarm.agents.registry import ROLES, parse_roles
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    CandidateCompiled,
    CandidateProfiled,
    CandidateVerified,
    CaseResult,
    CompilationFailed,
    CompileReport,
    Diagnostic,
    Event,
    Evidence,
    InputError,
    Intent,
    MemoryOperator,
    ModelCalled,
    NodePlanned,
    SessionClosed,
    Verdict,
    VerificationFailed,
    VerifyReport,
)
from kernelswarm.sessions.results import evaluation_of, result_of
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.sessions.session import new_session_id

INTERVAL = given.interval(1.9)
PLAN = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)


def graph_of(*events: Event) -> SearchGraph:
    graph = SearchGraph("rmsnorm-abcde")
    for index, event in enumerate([given.opened(), PLAN, given.candidate("SOURCE"), *events]):
        of_session = type(event).__name__ in ("SessionOpened", "SessionClosed")
        graph.apply(given.envelope_of(event, node="" if of_session else "n001", index=index), event)
    return graph


def won(**changes: object) -> SearchGraph:
    verified = VerifyReport(
        verdict=Verdict.correct,
        isolation="process+netns",
        cases=(CaseResult(shape="main", seed=5, error=0.0, reference_error=0.0, bound=1e-6),),
    )
    closed = SessionClosed(
        reason="budget", best="n001", win=True, speedup=given.interval(1.9), against="eager", candidates=1, correct=1
    )
    return graph_of(
        CandidateVerified(report=verified),
        CandidateProfiled(report=given.profile(1.0, 2.0)),
        given.diagnosed(2.0, against="eager"),
        CandidateProfiled(report=given.profile(1.0, 1.9), confirmation=True),
        given.diagnosed(1.9, against="eager", confirmation=True),
        msgspec.structs.replace(closed, **changes),
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (dict(budget=0), "budget 0"),
        (dict(budget=-3), "budget -3"),
        (dict(minutes=0.0), "minutes 0"),
        (dict(target=-1.0), "target -1"),
        (dict(policy="best"), "unknown policy 'best'"),
        (dict(against="max_autotune"), "against 'max_autotune': a win is measured against best, compile, eager"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        SearchOptions(**options).check()  # type: ignore[arg-type]


def test_session_ids_are_short_readable_subject_tokens() -> None:
    ids = {new_session_id("batch_event_truncate") for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", session) for session in ids)


def test_a_result_reports_the_confirmation_not_the_first_measurement() -> None:
    result = result_of(won(), "cpu", 12.0)
    assert result.times_ms == {"candidate": 1.0, "eager": 1.9}
    assert result.speedups["eager"].median == pytest.approx(1.9)
    assert (result.source, result.win, result.seconds) == ("SOURCE", True, 12.0)


def test_a_result_counts_requests_that_broke_off_and_none_that_were_refused() -> None:
    asked = dict(backend="openai", model="m", request="{}", completion="", input_tokens=100, output_tokens=10)
    refused = asked | dict(input_tokens=0, output_tokens=0, stop_reason="error", error="overloaded: later")
    cut_off = asked | dict(stop_reason="error", error="cancelled: given up", cost=0.02, estimated=True)
    graph = won()
    for index, fields in enumerate((asked | dict(stop_reason="stop", cost=0.01), refused, cut_off)):
        call = ModelCalled(**fields)  # type: ignore[arg-type]
        graph.apply(given.envelope_of(call, node="n001", index=index), call)
    result = result_of(graph, "cpu", 1.0)
    assert (result.model_cost, result.model_tokens) == (pytest.approx(0.03), 220)


def test_a_result_names_candidates_without_a_verdict_with_their_last_step() -> None:
    """A session that was closed before its first timing had "no candidate", though its log has verifications."""
    built = CompileReport(ok=True, language="cpp", compiler="g++ 12")
    refused = CompileReport(ok=False, language="cpp", compiler="g++ 12")
    right = VerifyReport(verdict=Verdict.correct, isolation="process")
    wrong = VerifyReport(verdict=Verdict.wrong_numbers, isolation="process")
    steps: dict[str, tuple[Event, ...]] = {
        "n001": (CandidateCompiled(report=built), CandidateVerified(report=right)),
        "n002": (CandidateCompiled(report=built),),
        "n003": (CandidateCompiled(report=built), VerificationFailed(report=wrong)),
        "n004": (CompilationFailed(report=refused),),
    }
    events = [(node, event) for node, after in steps.items() for event in (given.candidate(), *after)]
    graph = given.graph_with(*events, ("", SessionClosed(reason="interrupted")), first=given.opened())
    assert result_of(graph, "cpu", 1.0).unjudged == {
        "n001": "verified",
        "n002": "compiled",
        "n003": "wrong_numbers",
        "n004": "compile_error",
    }
    assert result_of(won(), "cpu", 1.0).unjudged == {}


def test_a_pool_that_does_not_time_a_baseline_cannot_be_beaten_there() -> None:
    with pytest.raises(InputError, match="'compile': pool cpu times candidates against eager only"):
        SearchOptions(against="compile").check_pool(given.pool(baselines=("eager",)))
    SearchOptions(against="eager").check_pool(given.pool(baselines=("eager",)))


def measured_twice() -> SearchGraph:
    """Confirmed with 1.9x by the judge, 1.3x in ordinary processes."""
    ordinary = given.against_all(1.0, eager=1.3)
    report = msgspec.structs.replace(given.profile(1.0, 1.9), ordinary=ordinary)
    closed = SessionClosed(
        reason="budget", best="n001", win=True, speedup=ordinary.speedup["eager"], against="eager", judged=INTERVAL
    )
    return graph_of(
        CandidateProfiled(report=report, confirmation=True),
        given.diagnosed(1.9, ordinary=ordinary.speedup["eager"], ordinary_against="eager", against="eager",
            confirmation=True),
        closed,
    )  # fmt: skip


def test_a_result_has_both_and_counts_the_ordinary_one() -> None:
    result = result_of(measured_twice(), "cpu", 1.0)
    assert result.ordinary is not None and result.ordinary_speedup is not None
    assert result.ordinary_speedup.median == result.ordinary.speedups["eager"].median
    assert result.ordinary.times_ms == {"eager": 1.3, "candidate": 1.0}
    assert (result.times_ms["eager"], result.speedups["eager"].median) == (1.9, pytest.approx(1.9))


def test_a_verdict_has_both_and_counts_the_ordinary_one() -> None:
    evaluation = evaluation_of(measured_twice(), "cpu")
    assert (
        evaluation.speedup is not None and evaluation.ordinary_speedup is not None and evaluation.ordinary is not None
    )
    assert (evaluation.ordinary_speedup.median, evaluation.speedup.median) == (pytest.approx(1.3), pytest.approx(1.9))


def test_an_evaluation_teaches_nothing_and_older_ones_still_do_what_they_did() -> None:
    for opened, taught in ((given.opened(), True), (given.opened(evaluation=True), False)):
        graph = won()
        assert graph.closed is not None
        assert (lesson(opened, graph, graph.session, graph.closed) is not None) is taught


def test_an_open_session_has_no_result() -> None:
    with pytest.raises(ValueError, match="still open"):
        result_of(graph_of(), "cpu", 0.0)


def test_a_verdict_on_a_correct_kernel() -> None:
    evaluation = evaluation_of(won(), "cpu")
    assert (evaluation.verdict, evaluation.correct, evaluation.win, evaluation.reason) == (
        Verdict.correct,
        True,
        True,
        None,
    )
    assert evaluation.speedup is not None and evaluation.speedup.against == "eager"
    assert evaluation.evidence["cases"] and "seed" not in evaluation.evidence["cases"][0]  # type: ignore[index]
    assert not evaluation.noisy


def test_a_verdict_on_a_wrong_kernel_shows_where_and_not_from_which_seed() -> None:
    evidence = Evidence(message="2 of 4 elements differ (seed 99)", element=(1,), expected="1.0", got="0.0", seed=99)
    report = VerifyReport(verdict=Verdict.wrong_numbers, isolation="process", evidence=evidence)
    graph = graph_of(
        VerificationFailed(report=report),
        given.diagnosed(verdict=Verdict.wrong_numbers, summary="wrong numbers: 2 of 4 elements differ (seed 99)"),
        SessionClosed(reason="budget", candidates=1),
    )
    evaluation = evaluation_of(graph, "cpu")
    assert (evaluation.correct, evaluation.win, evaluation.speedup, evaluation.times_ms) == (False, False, None, {})
    assert evaluation.evidence["got"] == "0.0" and "99" not in str(evaluation.evidence)
    assert evaluation.reason == "wrong numbers: 2 of 4 elements differ"


def test_a_verdict_on_what_does_not_compile_quotes_the_compiler() -> None:
    report = CompileReport(
        ok=False, language="cpp", compiler="g++", diagnostics=(Diagnostic(severity="error", message="no", line=3),)
    )
    graph = graph_of(
        CompilationFailed(report=report),
        given.diagnosed(verdict=Verdict.compile_error),
        SessionClosed(reason="budget", candidates=1),
    )
    evaluation = evaluation_of(graph, "cpu")
    assert evaluation.verdict is Verdict.compile_error
    assert "never ran" in evaluation.isolation
    (diagnostic,) = evaluation.evidence["diagnostics"]  # type: ignore[misc]
    assert (diagnostic["message"], diagnostic["line"]) == ("no", 3)


def test_roles_are_parsed_with_their_counts() -> None:
    assert parse_roles("compiler=2, verifier") == {"compiler": 2, "verifier": 1}
    assert set(parse_roles(",".join(ROLES))) == set(ROLES)


@pytest.mark.parametrize(
    ("text", "sentence"), [("cook=1", "'cook'"), ("compiler=0", "'0'"), ("compiler=x", "'x'"), ("", "no roles")]
)
def test_roles_that_are_none_are_named(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_roles(text)


def test_the_graph_names_every_state() -> None:
    graph = graph_of()
    states = [graph.nodes["n001"].state]
    report = CompileReport(ok=True, language="cpp", compiler="g++")
    for event in (CandidateCompiled(report=report), given.diagnosed(1.2)):
        graph.apply(given.envelope_of(event, node="n001", index=9), event)
        states.append(graph.nodes["n001"].state)
    assert states == ["proposed", "compiled", "done"]
