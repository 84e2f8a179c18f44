"""What a running search looks like, drawn from its graph."""

import io
from types import SimpleNamespace

import msgspec
import pytest
from logged import a_session
from rich.console import Console

import given
from kernelswarm.api.progress import step_text
from kernelswarm.cli.display import live, terminal
from kernelswarm.cli.display.dashboard import Dashboard
from kernelswarm.cli.display.live import Lines, open_display, time_text
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    DEADLINE,
    FINISHED,
    IDLE,
    OUTSIDE,
    AuthorBenched,
    BaselinesMeasured,
    ClaimRequested,
    Event,
    Intent,
    MemoryOperator,
    NodePlanned,
    ShapeBaselines,
    StopRequested,
    Verdict,
)
from kernelswarm.sessions.spectator import Spectator

BASELINES = next(event for event, _ in a_session() if isinstance(event, BaselinesMeasured))
FIRST_DIAGNOSED = 7
"""Events of the session until its first node is judged."""


def drawn(dashboard: Dashboard) -> str:
    console = Console(width=110, file=io.StringIO(), record=True)
    console.print(dashboard)
    return console.export_text()


def followed(dashboard: Dashboard, events: int | None, clock: list[float]) -> Dashboard:
    """The dashboard after the session's first ``events`` events, one a second."""
    graph = SearchGraph("rmsnorm-7kq2m")
    swarm = SimpleNamespace(doing=lambda: {"host.1.profiler.1": "rmsnorm-7kq2m/n002", "host.1.verifier.1": "s"})
    dashboard.opened(SimpleNamespace(session=graph.session, graph=graph, swarm=swarm))  # type: ignore[arg-type]
    for index, (event, node) in enumerate(list(a_session())[:events]):
        clock[0] += 1.0
        envelope = given.envelope_of(event, node=node, cause=str(index))
        graph.apply(envelope, event)
        dashboard.show(envelope, event)
    return dashboard


def test_before_the_session_it_says_what_is_happening() -> None:
    clock = [0.0]
    dashboard = Dashboard(lambda: clock[0])
    dashboard.notice("validating rmsnorm")
    clock[0] = 3.0
    assert "validating rmsnorm  3 s" in drawn(dashboard)


def test_it_shows_progress_candidates_and_who_does_what() -> None:
    clock = [0.0]
    dashboard = followed(Dashboard(lambda: clock[0]), FIRST_DIAGNOSED + 1, clock)
    shown = drawn(dashboard)
    assert "1/3 candidates" in shown and "best 1.25x" in shown
    assert "12/min" not in shown and "10/min" in shown  # counted from the baselines on: one in six seconds
    assert "baselines  eager 2.000 ms" in shown and "best path  n001 1.25x" in shown
    assert "profiler n002, verifier baselines" in shown
    assert any(line.split()[:3] == ["n001", "draft", "timed"] for line in shown.splitlines())


def test_it_says_who_is_waited_for_outside_and_how_to_claim() -> None:
    graph, dashboard = SearchGraph("s-test1"), Dashboard(lambda: 0.0)
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.inherit, synthesizer=OUTSIDE)
    claim = ClaimRequested(agent="alice", minutes=30.0)
    entries = [(given.opened(synthesizer=OUTSIDE), ""), (plan, "n001"), (plan, "n002"), (claim, "")]
    for index, (event, node) in enumerate(entries):
        graph.apply(given.envelope_of(event, node=node, index=index), event)
    dashboard.opened(SimpleNamespace(session=graph.session, graph=graph, swarm=None))  # type: ignore[arg-type]
    shown = drawn(dashboard)
    assert "outside authors: 1 task free, 1 task held by alice; to claim: kernelswarm tasks claim s-test1" in shown
    assert [line.split()[2] for line in shown.splitlines() if line.startswith("n00")] == ["held", "waits"]


def test_it_shows_the_path_to_the_best_and_why_others_failed() -> None:
    shown = drawn(followed(Dashboard(lambda: 0.0), None, [0.0]))
    assert "n001 1.25x → n002 2.00x" in shown
    assert "compile error" in shown and "expected ';' [-W]" in shown
    assert "closed; writing down what was learned" in shown


@pytest.mark.parametrize(("quiet", "kind"), [(True, Spectator), (False, Lines)])
def test_without_a_screen_there_are_plain_lines_or_nothing(quiet: bool, kind: type) -> None:
    with open_display(quiet=quiet) as display:
        assert type(display) is kind


def test_a_screen_gets_the_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "is_screen", lambda: True)
    with open_display(quiet=False) as display:
        assert isinstance(display, Dashboard)


def test_what_is_said_after_the_dashboard_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "is_screen", lambda: True)
    with open_display(quiet=False) as display:
        display.notice("starting the bus")
    capsys.readouterr()
    display.notice("waiting for another process")
    assert capsys.readouterr().err == "waiting for another process\n"


@pytest.mark.parametrize("display", [Lines(), Dashboard(lambda: 0.0)], ids=["lines", "dashboard"])
def test_an_author_that_gets_no_more_nodes_is_told(capsys: pytest.CaptureFixture[str], display: Spectator) -> None:
    event = AuthorBenched(author="openai", reason="the answer is empty", failures=3)
    display.show(given.envelope_of(event), event)
    assert " ".join(capsys.readouterr().err.split()) == (
        "the author openai gets no nodes after 3 nodes in a row without a candidate: the answer is empty"
    )


def test_lines_tell_baselines_diagnoses_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    graph = SearchGraph("rmsnorm-7kq2m")
    lines.opened(SimpleNamespace(session=graph.session, graph=graph))  # type: ignore[arg-type]
    for index, (event, node) in enumerate(a_session()):
        envelope = given.envelope_of(event, node=node, cause=str(index))
        graph.apply(envelope, event)
        lines.show(envelope, event)
    printed = capsys.readouterr()
    assert printed.out == "" and "\x1b" not in printed.err
    assert [line.split()[0] for line in printed.err.splitlines()] == ["session", "baselines:", "n001", "n002", "n003"]
    assert "improve of n001" in printed.err


def test_times_of_several_shapes_are_said_to_be_their_mean(capsys: pytest.CaptureFixture[str]) -> None:
    report = BASELINES.report
    shapes = tuple(ShapeBaselines(shape=name, weight=1.0, report=report) for name in ("main", "decode"))
    event = BaselinesMeasured(report=msgspec.structs.replace(report, median_ms={"eager": 2.0}, shapes=shapes))
    graph = given.graph_with(("", event))
    dashboard = Dashboard(lambda: 12.0)
    dashboard.opened(SimpleNamespace(session=graph.session, graph=graph, swarm=None))  # type: ignore[arg-type]
    Lines().show(given.envelope_of(event), event)
    for text in (capsys.readouterr().err, drawn(dashboard), step_text(event, graph)):
        assert "eager 2.000 ms (geometric mean of 2 shapes)" in " ".join(text.split())


def test_no_line_names_a_seed_of_the_judge(capsys: pytest.CaptureFixture[str]) -> None:
    """An agent may work at the terminal that a search prints to."""
    lines, dashboard, graph = Lines(), Dashboard(lambda: 0.0), SearchGraph("s-test1")
    for display in (lines, dashboard):
        display.opened(SimpleNamespace(session=graph.session, graph=graph, swarm=None))  # type: ignore[arg-type]
    summary = "wrong numbers: 0.5, not 0.25, at shape main (seed 249093807598757)"
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.inherit)
    for index, event in enumerate((plan, given.diagnosed(0.0, Verdict.wrong_numbers, summary=summary))):
        envelope = given.envelope_of(event, node="n001", index=index)
        graph.apply(envelope, event)
        lines.show(envelope, event)
    for text in (capsys.readouterr().err, drawn(dashboard)):
        assert "not 0.25, at shape main" in text and "249093807598757" not in text


def test_a_session_with_a_deadline_says_how_far_it_is_and_when_its_last_part_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    graph, lines, dashboard = SearchGraph("s-test1"), Lines(), Dashboard(lambda: 12.0)
    for display in (lines, dashboard):
        display.opened(SimpleNamespace(session=graph.session, graph=graph, swarm=None))  # type: ignore[arg-type]
    stops = [StopRequested(reason=reason) for reason in ("minutes", DEADLINE, FINISHED, IDLE)]
    events = (given.opened(minutes=5.0, reserve=1.0), given.diagnosed(1.5), *stops)
    for index, event in enumerate(events):
        envelope = given.envelope_of(event, node="n001" if index == 1 else "", cause=str(index))
        graph.apply(envelope, event)
        lines.show(envelope, event)
    assert capsys.readouterr().err.splitlines()[2:] == [
        "no more candidates: the last 60 s confirm the best",
        "its time is over",
        "an outside author says that nothing more comes: the best candidates are confirmed",
        "no outside author came back in time: the best candidates are confirmed",
    ]
    assert "0 of 300 s" in drawn(dashboard)


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ([], "none is judged yet, the last 60 s are for the baselines and those under way"),
        ([BASELINES], "none is judged yet, the last 60 s are for those under way"),
        (
            [BASELINES, given.diagnosed(verdict=Verdict.wrong_numbers)],
            "none is right yet, the last 60 s are for those under way",
        ),
    ],
)
def test_the_last_part_of_a_search_confirms_nothing_while_no_candidate_is_right(before: list[Event], says: str) -> None:
    graph = given.graph_with(*(("n001", event) for event in before), first=given.opened(minutes=5.0, reserve=1.0))
    assert time_text("minutes", graph) == f"no more candidates: {says}"


def test_no_color_is_respected_even_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = type(terminal.out)(force_terminal=True, file=io.StringIO(), highlight=False)
    console.print("[red]x[/]")
    assert "\x1b[31m" not in console.file.getvalue()  # type: ignore[attr-defined]
