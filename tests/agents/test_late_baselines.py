"""Baselines that join late: who was timed before is ranked beside who is compared with them, and finalists wait."""

import asyncio
import math
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from planner_ring import Ring
from waiting import LIMIT_S

import given
from kernelswarm.agents.analyst.diagnose import diagnose
from kernelswarm.agents.profiler import MOST_PATIENCE_S, SHARE_OF_TIME, Profiler, _effort
from kernelswarm.agents.runtime import Histories, Work, Worker
from kernelswarm.agents.synthesizer.model.sections import outcome
from kernelswarm.agents.synthesizer.request import attempt_of
from kernelswarm.bus import Bus
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.hardware.harness import baseline_process
from kernelswarm.hardware.harness.late_baseline import LATE
from kernelswarm.hardware.harness.timing.effort import Effort
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import (
    FINISHED,
    IDLE,
    BaselinesMeasured,
    CandidateCompiled,
    CandidateProfiled,
    CandidateVerified,
    CompileReport,
    ConfirmationPlanned,
    Envelope,
    Event,
    NodeDiagnosed,
    NodePlanned,
    ProfileReport,
    ProfilingFailed,
    SessionClosed,
    StopRequested,
    Timing,
    Verdict,
    VerifyReport,
)
from kernelswarm.sessions.replay import Replay
from kernelswarm.sessions.search import searching
from kernelswarm.sessions.search_options import SearchOptions

MINUTES = 10.0
RESERVE = 1.0
SLACK_S = 60.0
"""Between the opening's time as a test says it and the moment at which it is read."""


def early(speedup: float, **changes: object) -> NodeDiagnosed:
    """Of a candidate that was timed against eager alone."""
    pending = ("compile",)
    return given.diagnosed(speedup, against="eager", pending=pending, absent=dict.fromkeys(pending, LATE), **changes)


def joined(speedup: float, eager: float, **changes: object) -> NodeDiagnosed:
    """Of one that was compared with both."""
    return given.diagnosed(speedup, against="compile", speedups={"eager": eager, "compile": speedup}, **changes)


def test_who_was_timed_before_a_baseline_joined_is_ranked_as_if_after() -> None:
    ring = Ring(budget=3, trusts_finalists=True, hopeless_below=0.9)
    ring.tell(early(5.0), "n001")
    ring.tell(early(2.0), "n002")
    assert [node.name for node in ring.state.correct()] == ["n001", "n002"]
    decisions = ring.tell(joined(2.0, eager=8.0), "n003")
    assert [node.name for node in ring.state.correct()] == ["n003", "n001", "n002"]
    assert [node.fitness for node in ring.state.correct()] == pytest.approx([2.0, 1.25, 0.5])
    assert ring.state.best_seen == pytest.approx(2.0), "it is progress"
    assert [decision.node for decision in decisions] == ["n003", "n001"], "the other one is slower than torch.compile"
    # What was measured stays what it was.
    assert ring.state.nodes["n001"].speedup == given.interval(5.0)


@pytest.mark.parametrize("compares_late", [True, False])
def test_the_best_is_compared_with_what_joined_since_although_it_has_lost(compares_late: bool) -> None:
    """ResNet18 was said to stand at 1.26x of eager, since it was never timed with torch.compile, which is faster."""
    ring = Ring(budget=2, trusts_finalists=True, hopeless_below=0.9, compares_late=compares_late)
    ring.tell(early(1.26), "n001")
    decisions = ring.tell(joined(0.8, eager=1.2), "n002")
    assert [(decision.node, type(decision.event)) for decision in decisions] == [
        ("n001", ConfirmationPlanned) if compares_late else ("", SessionClosed)
    ]
    if compares_late:
        (closing,) = ring.tell(joined(0.85, eager=1.27, confirmation=True), "n001")
        assert isinstance(closing.event, SessionClosed) and not closing.event.win
        assert (closing.event.best, closing.event.against) == ("n001", "compile")
        assert "0.85x" in closing.event.detail and "torch.compile" in closing.event.detail


def test_a_finalist_that_is_compared_with_more_baselines_was_not_false_before() -> None:
    ring = Ring(budget=1, trusts_finalists=True, confirmations=1)
    ring.tell(early(5.0), "n001")
    (closing,) = ring.tell(joined(0.99, eager=4.95, confirmation=True), "n001")
    assert isinstance(closing.event, SessionClosed) and not closing.event.win
    assert not ring.state.nodes["n001"].is_refuted and not ring.state.nodes["n001"].pending


def test_no_target_is_reached_while_a_baseline_is_pending() -> None:
    ring = Ring(budget=40, trusts_finalists=True, target=2.0)
    for node, speedup in (("n001", 9.0), ("n002", 2.5)):
        assert not any(isinstance(d.event, ConfirmationPlanned) for d in ring.tell(early(speedup), node))
    decisions = ring.tell(joined(1.0, eager=4.0), "n003")
    assert [(d.node, type(d.event)) for d in decisions] == [("n001", ConfirmationPlanned)], "2.25x of torch.compile"


def test_what_was_pending_to_the_end_is_named() -> None:
    ring = Ring(budget=1, trusts_finalists=True)
    ring.tell(early(5.0), "n001")
    (closing,) = ring.tell(early(4.0, confirmation=True), "n001")
    assert isinstance(closing.event, SessionClosed) and closing.event.win
    assert f"torch.compile was not compared: {LATE}" in closing.event.detail


def profiled(timing: Timing) -> CandidateProfiled:
    return CandidateProfiled(report=ProfileReport(verdict=Verdict.correct, isolation="x", timing=timing))


def test_the_analyst_says_all_speedups_once_a_baseline_has_joined() -> None:
    before = replace(given.against_all(1.0, eager=5.0), absent={"compile": LATE}, pending=("compile",))
    after = given.against_all(1.0, eager=6.0, compile=1.5)
    first = profiled(before)
    diagnosis = diagnose(given.graph_with(("n001", first)), "n001", first)
    assert diagnosis.pending == ("compile",) and not diagnosis.speedups
    child = NodePlanned(parent="n001", intent="improve", memory="inherit", number=2, draw=1)  # type: ignore[arg-type]
    graph = given.graph_with(
        *(("n001", given.candidate()), ("n001", first), ("n001", diagnosis)),
        *(("n002", child), ("n002", given.candidate("faster")), ("n002", profiled(after))),
    )
    second = diagnose(graph, "n002", profiled(after))
    assert second.speedups == pytest.approx({"eager": 6.0, "compile": 1.5}) and not second.pending
    (finding,) = (finding for finding in second.evidence if finding.name == "parent")
    assert finding.value == "1.20x of n001" and "helped" in finding.meaning
    assert "5x eager's speed" in outcome(attempt_of(graph.nodes["n001"]))
    alone = diagnose(given.graph_with(("n001", profiled(after))), "n001", profiled(after))
    assert not alone.speedups, "there is nobody to rank beside"


def effort(event: Event, *events: Event, elapsed_s: float = 0.0, **opened: object) -> Effort:
    graph = SearchGraph("s-test1")
    begun_ns = time.time_ns() - round(elapsed_s * 1e9)
    for told in (given.opened(**opened), *events):
        graph.apply(given.envelope_of(told, at_ns=begun_ns), told)
    return _effort(Work(given.envelope_of(event, node="n001"), event, graph, 1))


def patience_s(event: Event, *events: Event, elapsed_s: float = 0.0, **opened: object) -> float:
    asked = effort(event, *events, elapsed_s=elapsed_s, **opened)
    return max(0.0, asked.patient_until - time.monotonic())


FINALIST = ConfirmationPlanned(rank=1)
CANDIDATE = CandidateVerified(report=VerifyReport(verdict=Verdict.correct, isolation="x"))
TIMED: "dict[str, object]" = dict(minutes=MINUTES, reserve=RESERVE)


@pytest.mark.parametrize(
    ("event", "events", "elapsed_s", "opened", "expected_s"),
    [
        (FINALIST, [], 0.0, TIMED, 60 * (MINUTES - RESERVE)),
        (FINALIST, [], 300.0, TIMED | dict(spent_s=60.0), 60 * (MINUTES - RESERVE) - 360),
        (FINALIST, [], 60 * MINUTES - 30, TIMED, 0.0),
        (FINALIST, [], 90 * MINUTES, TIMED, SHARE_OF_TIME * 60 * MINUTES),
        (FINALIST, [], 0.0, dict(minutes=MINUTES), 60 * MINUTES),
        (FINALIST, [], 90 * MINUTES, dict(minutes=MINUTES), 0.0),
        (FINALIST, [], 0.0, {}, MOST_PATIENCE_S),
        (FINALIST, [StopRequested(reason="minutes")], 0.0, TIMED, 0.0),
        (FINALIST, [StopRequested(reason=IDLE)], 0.0, {}, 0.0),
        (FINALIST, [StopRequested(reason=FINISHED)], 0.0, TIMED, 0.0),
        (FINALIST, [StopRequested(reason="target")], 0.0, {}, MOST_PATIENCE_S),
        (CANDIDATE, [], 0.0, TIMED, 0.0),
        (CANDIDATE, [], 0.0, TIMED | dict(budget=1), SHARE_OF_TIME * 60 * MINUTES),
    ],
    ids=[
        *("until the reserve", "what is left of it", "in the reserve", "resumed", "until the end", "overtime"),
        *("without minutes", "out of time", "idle", "finished", "its aim is reached", "no finalist"),
        "the only candidate",
    ],
)
def test_finalists_wait_until_they_must_be_confirmed(
    event: Event, events: list[Event], elapsed_s: float, opened: dict[str, object], expected_s: float
) -> None:
    assert patience_s(event, *events, elapsed_s=elapsed_s, **opened) == pytest.approx(expected_s, abs=SLACK_S)


LONG: "dict[str, object]" = dict(minutes=100.0, reserve=40.0)


def test_a_pause_before_a_resume_takes_nothing_of_the_finalists_time() -> None:
    """The session stood still for ten hours; its stop, with which their time begins, was said just now."""
    graph = SearchGraph("s-test1")
    stop = StopRequested(reason="minutes")
    for event, ago_s in ((given.opened(**LONG), 36000.0), (stop, 3.0)):
        graph.apply(given.envelope_of(event, at_ns=time.time_ns() - round(ago_s * 1e9)), event)
    asked = _effort(Work(given.envelope_of(FINALIST, node="n001"), FINALIST, graph, 1))
    assert asked.until - time.monotonic() == pytest.approx(30 * 40.0, abs=SLACK_S)


def test_steps_share_the_time_that_is_left() -> None:
    now = time.monotonic()
    first = Effort(until=now + 1200.0).for_next(4)
    assert first.until - now == pytest.approx(300.0, abs=SLACK_S) and not first.is_late
    assert Effort().for_next(2).until == math.inf
    assert Effort(until=now - 10.0).for_next(2).is_late


def test_finalists_wait_for_what_a_win_is_measured_against() -> None:
    assert effort(FINALIST, against="compile").against == "compile"


class Patient:
    """A device on which finalists wait until they are hurried."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    async def profile(self, *arguments: object, effort: Effort, **how: object) -> ProfileReport:
        assert effort.hurried is not None and effort.patient_until > time.monotonic()
        self.waits.set()
        await effort.hurried()
        return ProfileReport(verdict=Verdict.harness_error, isolation="")

    def joined(self, *arguments: object) -> None:
        return None

    def has(self, artifact: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("minutes", "shapes", "expected"),
    [(2.0, 1, 0.8), (3.0, 1, 1.0), (3.0, 2, 1.2), (8.0, 2, 1.5), (8.0, 5, 3.0), (30.0, 2, 3.0)],
)
def test_finalists_have_more_time_where_more_shapes_are_timed(minutes: float, shapes: int, expected: float) -> None:
    assert SearchOptions(minutes=minutes).reserve(shapes) == pytest.approx(expected)


class Impatient(Patient):
    """A device that says how much time the judge has for a finalist."""

    left_s = math.inf

    async def profile(self, *arguments: object, effort: Effort, **how: object) -> ProfileReport:
        self.left_s = effort.until - time.monotonic()
        return ProfileReport(verdict=Verdict.harness_error, isolation="")


async def test_half_of_the_finalists_time_is_for_ordinary_processes(bus: Bus) -> None:
    device, graph = Impatient(), SearchGraph("s-test1")
    compiled = CandidateCompiled(report=CompileReport(ok=True, language="cpp", compiler=""))
    stop, now = StopRequested(reason="minutes"), time.time_ns()
    for event, node in ((given.opened(**LONG), ""), (given.candidate(), "n001"), (compiled, "n001"), (stop, "")):
        graph.apply(given.envelope_of(event, node=node, at_ns=now), event)
    envelope = given.envelope_of(FINALIST, node="n001")
    work = Work(envelope, FINALIST, graph, await bus.publish(envelope))
    await asyncio.wait_for(Profiler(device, bus).handle(work), LIMIT_S)  # type: ignore[arg-type]
    assert device.left_s == pytest.approx(15 * 40.0, abs=SLACK_S)


async def test_a_session_that_is_asked_to_stop_hurries_a_finalist_that_waits(bus: Bus) -> None:
    device, graph = Patient(), SearchGraph("s-test1")
    compiled = CandidateCompiled(report=CompileReport(ok=True, language="cpp", compiler=""))
    for event, node in ((given.opened(), ""), (given.candidate(), "n001"), (compiled, "n001")):
        graph.apply(given.envelope_of(event, node=node), event)
    envelope = given.envelope_of(FINALIST, node="n001")
    work = Work(envelope, FINALIST, graph, await bus.publish(envelope))
    handling = asyncio.create_task(Profiler(device, bus).handle(work))  # type: ignore[arg-type]
    await asyncio.wait_for(device.waits.wait(), LIMIT_S)
    await bus.publish(given.envelope_of(StopRequested(reason="target"), cause="planner"))
    await bus.publish(given.envelope_of(StopRequested(reason=FINISHED), cause="user"))
    (answer,) = await asyncio.wait_for(handling, LIMIT_S)
    assert isinstance(answer.event, ProfilingFailed)


class Ordered(Patient):
    """A device that remembers whom it times, a finalist or not."""

    def __init__(self) -> None:
        self.finalists: list[bool] = []

    async def install(self, *arguments: object) -> None:
        """It has everything."""

    async def profile(self, *arguments: object, thorough: bool, effort: Effort, **how: object) -> ProfileReport:
        self.finalists.append(thorough)
        return ProfileReport(verdict=Verdict.harness_error, isolation="")


@pytest.mark.parametrize(("reason", "expected"), [("minutes", [True, False]), ("target", [False, True])])
async def test_once_time_is_nearly_over_a_finalist_goes_before_first_timings(
    bus: Bus, reason: str, expected: list[bool]
) -> None:
    device = Ordered()
    compiled = CandidateCompiled(report=CompileReport(ok=True, language="cpp", compiler=""))
    verified = CandidateVerified(report=VerifyReport(verdict=Verdict.correct, isolation="x"))
    events: list[tuple[Event, str]] = [(given.opened(**LONG), "")]
    events += [(event, node) for node in ("n001", "n002") for event in (given.candidate(), compiled)]
    events += [(verified, "n002"), (StopRequested(reason=reason), ""), (FINALIST, "n001")]
    await bus.publish_many(
        [given.envelope_of(event, node=node, cause=str(index)) for index, (event, node) in enumerate(events)]
    )
    profiler = Profiler(device, bus)  # type: ignore[arg-type]
    profiler.consumes = (CandidateVerified, ConfirmationPlanned)
    worker = asyncio.create_task(Worker(profiler, bus, "cpu", Histories(bus), session="s-test1").run())
    async with asyncio.timeout(LIMIT_S):
        while len(device.finalists) < 2:  # noqa: ASYNC110 - it is a worker that gets on
            await asyncio.sleep(0.05)
    worker.cancel()
    assert device.finalists == expected


@pytest.mark.thorough
def test_a_session_times_against_eager_until_torch_compile_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole ring, real processes; torch.compile is late whatever it takes."""
    monkeypatch.setattr(baseline_process, "LATE_AFTER_SECONDS", 0.0)
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools" / "late.toml").write_text(
        'name = "late"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager", "compile"]\n'
    )
    (tmp_path / "small.py").write_text(given.SOURCE)

    async def searched() -> list[tuple[Envelope, Event]]:
        options = SearchOptions(budget=2, seed=3)
        async with searching(load_problem(tmp_path / "small.py"), "late", options, home=tmp_path) as running:
            return [entry async for entry in running.events()]

    entries = asyncio.run(searched())
    measured = [event.report for _, event in entries if isinstance(event, BaselinesMeasured)]
    assert [[status.pending for status in report.statuses] for report in measured] == [[False, True], [False, False]]
    profiles = [event for _, event in entries if isinstance(event, CandidateProfiled)]
    for timing in (event.report.timing for event in profiles):
        assert timing is not None and (
            timing.absent == {"compile": LATE} or set(timing.speedup) == {"eager", "compile"}
        )
    finalists = [event.report.timing for event in profiles if event.confirmation]
    assert finalists and all(timing is not None and not timing.absent for timing in finalists)
    replay = Replay(entries[0][0].session)
    for seq, (envelope, event) in enumerate(entries, 1):
        replay.feed(seq, envelope, event)
    assert replay.finish().status == "closed"
