"""The finished file: made from the log alone, with a header that says what it beats."""

import msgspec
import pytest

import given
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    CandidateProfiled,
    InputError,
    Intent,
    MemoryOperator,
    NodePlanned,
    ProfileReport,
    SessionClosed,
    Verdict,
)
from kernelswarm.sessions.finished_file import finished_file

OPENED_NS = 1_764_000_000 * 10**9
"""2025-11-24."""
SOURCE = "def kernel(x, w):\n    return x\n"


def graph_of(report: ProfileReport, verdict: Verdict = Verdict.correct, *, confirmation: bool = True) -> SearchGraph:
    opened = given.opened(version="0.3", hardware=given.hardware(torch="2.13", compilers=("g++ 12.2.0",)))
    graph = SearchGraph("rmsnorm-abcde")
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    events = [
        plan,
        given.candidate(SOURCE),
        CandidateProfiled(report=report, confirmation=confirmation),
        given.diagnosed(2.0, verdict, confirmation=confirmation),
    ]
    graph.apply(given.envelope_of(opened, at_ns=OPENED_NS), opened)
    for index, event in enumerate(events):
        graph.apply(given.envelope_of(event, node="n001", index=index), event)
    return graph


def report(**changes: object) -> ProfileReport:
    judged = given.against_all(1.0, eager=5.0, compile=1.2, max_autotune=1.01)
    ordinary = given.against_all(1.0, eager=4.0, compile=0.97, max_autotune=1.01)
    base = ProfileReport(verdict=Verdict.correct, isolation="x", timing=judged, ordinary=ordinary)
    return msgspec.structs.replace(base, **changes)  # type: ignore[arg-type]


def test_the_header_says_what_it_beats_in_ordinary_processes_first() -> None:
    lines = finished_file(graph_of(report()), "n001").splitlines()
    ordinary, judged = (next(at for at, line in enumerate(lines) if text in line) for text in ("In ordinary", "judge"))
    assert ordinary < judged
    assert "faster than eager: 4.00x (3.92 to 4.08); 1 ms, not 4 ms" in lines[ordinary + 1]
    assert "faster than eager: 5.00x (4.90 to 5.10)" in lines[judged + 1]


@pytest.mark.parametrize(("win", "line"), [(True, "A win: n001 is 4.00x."), (False, "No win found: n001 lost.")])
def test_the_header_says_first_whether_it_is_a_win(win: bool, line: str) -> None:
    graph = graph_of(report())
    detail = line.removeprefix("A win: ").rstrip(".").replace("No win", "no win")
    closed = SessionClosed(reason="budget", best="n001", win=win, detail=detail)
    graph.apply(given.envelope_of(closed, index=9), closed)
    assert finished_file(graph, "n001").splitlines()[2] == line


def test_where_medians_say_something_else_than_the_ratio_the_header_says_why() -> None:
    noisy = given.against_all(1.0, eager=1.29)
    noisy = msgspec.structs.replace(noisy, speedup={"eager": given.interval(0.86, 0.2)})
    text = finished_file(graph_of(report(ordinary=noisy)), "n001")
    assert "1 ms beside 1.29 ms by the medians of a run that was too noisy for them" in text


def test_the_header_says_plainly_what_it_does_not_beat() -> None:
    text = finished_file(graph_of(report()), "n001")
    assert "slower than torch.compile: 0.97x (0.95 to 0.99)" in text
    assert "not shown to be faster than max-autotune: 1.01x (0.99 to 1.03)" in text


def test_the_header_names_session_versions_hardware_and_date() -> None:
    text = finished_file(graph_of(report()), "n001")
    for fact in ("session rmsnorm-abcde, node n001", "kernelswarm 0.3", "pool cpu: test cpu, 2 cores", "torch 2.13",
                 "g++ 12.2.0", "2025-11-24"):  # fmt: skip
        assert fact in text


def test_the_candidate_is_in_it_and_the_same_log_gives_the_same_text() -> None:
    text = finished_file(graph_of(report()), "n001")
    assert SOURCE in text and text == finished_file(graph_of(report()), "n001")
    compile(text, "best.py", "exec")


def test_what_was_not_timed_is_said() -> None:
    missing = report(ordinary=None, ordinary_missing="it does not import there")
    assert "not timed in ordinary processes: it does not import there" in finished_file(graph_of(missing), "n001")
    once = finished_file(graph_of(report(ordinary=None), confirmation=False), "n001")
    assert "timed once and not confirmed" in once and "ordinary" not in once


@pytest.mark.parametrize(
    ("graph", "node"),
    [(graph_of(report()), "n009"), (graph_of(report(), Verdict.wrong_numbers), "n001"), (SearchGraph("empty"), "n001")],
)
def test_there_is_no_file_of_what_is_not_correct(graph: SearchGraph, node: str) -> None:
    with pytest.raises(InputError, match=f"node {node} .* no correct candidate"):
        finished_file(graph, node)
