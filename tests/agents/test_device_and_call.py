"""An accelerator has two numbers, device and call: which one makes a win, what the other one does, and what is said."""

import asyncio

import msgspec
import pytest

import given
from kernelswarm.agents.analyst.diagnose import diagnose
from kernelswarm.agents.planner.machine import decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.agents.profiler import Profiler
from kernelswarm.agents.runtime import Work
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    CandidateProfiled,
    ConfirmationPlanned,
    ContractProperty,
    InputError,
    Intent,
    MemoryOperator,
    NodeDiagnosed,
    NodePlanned,
    Origin,
    ProfileReport,
    SessionClosed,
    SessionOpened,
    Timing,
    Verdict,
)
from kernelswarm.sessions.finished_file import finished_file
from kernelswarm.sessions.fork import ForkPoint
from kernelswarm.sessions.results import evaluation_of, result_of
from kernelswarm.sessions.search_options import SearchOptions

GPU = given.pool(name="h200", platform="nvidia", languages=("triton",))
NODES = ("n001", "n002", "n003")
DEVICE = given.against_all(1.0, eager=2.0, compile=1.5)
CALL = given.against_all(1.0, eager=1.5, compile=0.9)
BROKEN = ContractProperty(name="gradients", ok=False, is_essential=True, detail="it gives none")


def closed(
    numbers: "dict[str, tuple[float, float | None]]", measure: str = "device", **fields: object
) -> SessionClosed:
    """How a session closes whose finalists have these speedups on the device and as a call."""
    state = PlannerState()
    decisions = decide(state, given.opened(pool=GPU, budget=len(numbers), measure=measure))
    for node, (device, _) in numbers.items():
        decisions = decide(state, given.diagnosed(device), node)
    for node, (device, call) in numbers.items():
        interval = None if call is None else given.interval(call)
        against = "compile" if interval else ""
        event = given.diagnosed(device, confirmation=True, ordinary=interval, ordinary_against=against, **fields)
        decisions = decide(state, event, node)
    (closing,) = decisions
    assert isinstance(closing.event, SessionClosed)
    return closing.event


def test_a_win_on_the_device_is_one_whatever_the_call_is() -> None:
    closing = closed({"n001": (1.5, 0.8)})
    assert closing.win and (closing.wins, closing.against) == (1, "compile")
    assert (closing.speedup, closing.judged, closing.call) == (given.interval(1.5), None, given.interval(0.8))
    assert closing.detail.startswith("n001 is 1.50x (1.47 to 1.53) as fast as torch.compile on the device")
    assert "(0.80x (0.78 to 0.82) of torch.compile as a call)" in closing.detail


def test_a_faster_call_alone_is_no_win() -> None:
    closing = closed({"n001": (0.9, 1.5)})
    assert not closing.win and closing.wins == 0 and closing.speedup == given.interval(0.9)
    assert closing.detail.startswith("no win found: the best candidate stands at 0.90x")


def test_a_call_that_could_not_be_timed_is_said_and_takes_no_win_by_the_device() -> None:
    closing = closed({"n001": (1.5, None)}, ordinary_missing="it hangs there")
    assert closing.win and closing.call is None
    assert "on the device (it was not timed as a call: it hangs there)" in closing.detail


@pytest.mark.parametrize(("device", "call", "win"), [(1.5, 1.2, True), (1.5, 0.9, False), (0.9, 1.5, False)])
def test_a_win_by_the_call_needs_both(device: float, call: float, win: bool) -> None:
    closing = closed({"n001": (device, call)}, "call")
    assert closing.win is win
    assert (closing.speedup, closing.judged, closing.call) == (
        given.interval(call),
        given.interval(device),
        given.interval(call),
    )
    assert "as a call (" in closing.detail and "on the device" in closing.detail


def test_by_the_call_what_was_not_timed_as_one_is_no_win() -> None:
    closing = closed({"n001": (1.5, None)}, "call", ordinary_missing="it hangs there")
    assert not closing.win and "n001 was not timed as a call: it hangs there" in closing.detail


@pytest.mark.parametrize(
    ("measure", "best"),
    [("device", "n002"), ("call", "n003")],
)
def test_the_best_is_the_fastest_by_the_measure(measure: str, best: str) -> None:
    assert closed({"n001": (1.5, 1.2), "n002": (1.9, 1.1), "n003": (1.2, 1.4)}, measure).best == best


def test_of_what_is_as_fast_on_the_device_the_faster_call_is_the_best() -> None:
    assert closed({"n001": (1.50, 1.1), "n002": (1.49, 1.3), "n003": (1.2, 1.9)}).best == "n002"


def test_a_file_that_is_no_drop_in_is_no_win_on_the_device_either() -> None:
    closing = closed({"n001": (1.5, 1.2)}, broken_contract="the finished file is no drop-in (gradients): none")
    assert not closing.win and closing.wins == 0
    assert closing.detail.startswith("no win found: the finished file is no drop-in (gradients): none (1.50x")


def test_an_older_session_without_calls_closes_as_it_did() -> None:
    closing = closed({"n001": (1.5, None), "n002": (1.7, None)})
    assert (closing.best, closing.win, closing.wins, closing.call, closing.judged) == ("n002", True, 2, None, None)
    assert closing.detail == "n002 is 1.70x (1.67 to 1.73) as fast as torch.compile"


def test_an_older_opening_goes_by_the_device() -> None:
    body = msgspec.json.decode(msgspec.json.encode(given.opened(pool=GPU)))
    body.pop("measure", None)
    assert msgspec.convert(body, SessionOpened).counts_device_alone


# What the profiler asks for.


class Hardware:
    """A device on which a finished file has these numbers as a call, and breaks its contract."""

    def __init__(self) -> None:
        self.contracts = 0

    async def ordinary(self, *arguments: object, **how: object) -> tuple[Timing, str]:
        return CALL, ""

    async def contract(self, text: str, problem: object) -> tuple[ContractProperty, ...]:
        self.contracts += 1
        return (BROKEN,)


@pytest.mark.parametrize(("measure", "contracts"), [("device", 1), ("call", 0)])
async def test_the_contract_is_asked_where_what_counts_is_a_win(measure: str, contracts: int) -> None:
    hardware, event = Hardware(), ConfirmationPlanned(rank=1)
    work = Work(given.envelope_of(event, node="n001"), event, graph_of(measure), 9)
    timed = ProfileReport(verdict=Verdict.correct, isolation="x", timing=DEVICE)
    profiler = Profiler(hardware, None)  # type: ignore[arg-type]
    report = await profiler._as_handed_over(work, timed, "def kernel(x, w): return x")
    # A broken contract takes nothing from what was measured: the analyst says what it means.
    assert (report.ordinary, report.ordinary_missing, hardware.contracts) == (CALL, "", contracts)
    assert report.contract == (BROKEN,) * contracts


class Together(Hardware):
    """One on which a time is there only once the contract was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def ordinary(self, *arguments: object, **how: object) -> tuple[Timing, str]:
        await self.asked.wait()
        return CALL, ""

    async def contract(self, text: str, problem: object) -> tuple[ContractProperty, ...]:
        self.asked.set()
        return await super().contract(text, problem)


async def test_where_the_judge_saw_a_win_the_contract_is_checked_while_processes_are_waited_for() -> None:
    event = ConfirmationPlanned(rank=1)
    work = Work(given.envelope_of(event, node="n001"), event, graph_of("device"), 9)
    timed = ProfileReport(verdict=Verdict.correct, isolation="x", timing=DEVICE)
    profiler = Profiler(Together(), None)  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        report = await profiler._as_handed_over(work, timed, "def kernel(x, w): return x")
    assert (report.ordinary, report.contract) == (CALL, (BROKEN,))


# What is told of it.


def graph_of(measure: str = "device", **report: object) -> SearchGraph:
    """A closed session with one confirmed candidate."""
    opened = given.opened(pool=GPU, measure=measure, budget=1)
    profile = ProfileReport(verdict=Verdict.correct, isolation="x", timing=DEVICE, ordinary=CALL)
    profile = msgspec.structs.replace(profile, **report)  # type: ignore[arg-type]
    graph = SearchGraph("rmsnorm-abcde")
    profiled = CandidateProfiled(report=profile, confirmation=True)
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    graph.apply(given.envelope_of(opened), opened)
    for index, event in enumerate([plan, given.candidate(), profiled]):
        graph.apply(given.envelope_of(event, node="n001", index=index), event)
    diagnosis = diagnose(graph, "n001", profiled)
    graph.apply(given.envelope_of(diagnosis, node="n001", index=9), diagnosis)
    call = diagnosis.ordinary
    counted, judged = (call, diagnosis.speedup) if measure == "call" and call else (diagnosis.speedup, None)
    end = SessionClosed(
        reason="budget", best="n001", win=measure == "device", speedup=counted, judged=judged, against="compile",
        call=call, call_against="compile",
    )  # fmt: skip
    graph.apply(given.envelope_of(end, index=10), end)
    return graph


def diagnosis_of(graph: SearchGraph) -> NodeDiagnosed:
    diagnosis = graph.nodes["n001"].confirmation_diagnosis
    assert diagnosis is not None
    return diagnosis


def test_the_diagnosis_names_both_numbers() -> None:
    assert diagnosis_of(graph_of()).summary.startswith("1.50x against torch.compile on the device, 0.90x as a call")


def test_a_broken_contract_stands_in_the_diagnosis_where_the_device_decides() -> None:
    assert diagnosis_of(graph_of(contract=(BROKEN,))).broken_contract.endswith("(gradients): it gives none")
    assert diagnosis_of(graph_of("call", contract=(BROKEN,))).broken_contract == ""


@pytest.mark.parametrize(("measure", "ratio"), [("device", 1.5), ("call", 0.9)])
def test_the_result_has_both_numbers_and_names_the_one_that_counts(measure: str, ratio: float) -> None:
    result = result_of(graph_of(measure), "h200", 1.0)
    assert result.speedup is not None and result.call_speedup is not None and result.counted is not None
    assert (result.speedup.median, result.call_speedup.median, result.ordinary_speedup) == (1.5, 0.9, None)
    assert result.measure == measure and result.counted.median == ratio
    assert result.ordinary is None and result.device is not None and result.call is not None
    assert (result.device.times_ms["compile"], result.call.times_ms["compile"]) == (1.5, 0.9)
    evaluation = evaluation_of(graph_of(measure), "h200")
    assert (evaluation.speedup, evaluation.call_speedup) == (result.speedup, result.call_speedup)
    assert (evaluation.measure, evaluation.device, evaluation.call) == (measure, result.device, result.call)


def test_a_call_that_was_not_timed_is_not_replaced_by_the_device() -> None:
    graph = graph_of("call", ordinary=None, ordinary_missing="it hangs there")
    assert result_of(graph, "h200", 1.0).counted is None
    evaluation = evaluation_of(graph, "h200")
    assert (evaluation.counted, evaluation.ordinary_missing) == (None, "it hangs there")


@pytest.mark.parametrize("measure", ["device", "call"])
def test_the_header_of_the_file_has_both_numbers_the_one_that_counts_first(measure: str) -> None:
    text = finished_file(graph_of(measure), "n001")
    device, call = text.index("On the device (its own time"), text.index("As a call (in an ordinary process")
    assert (device < call) is (measure == "device")
    assert "faster than torch.compile: 1.50x" in text and "slower than torch.compile: 0.90x" in text
    assert ("win or none is its time on the device." in text) is (measure == "device")


def test_the_measure_travels_into_a_fork_and_must_be_one_of_the_two() -> None:
    point = ForkPoint(given.opened(measure="call"), Origin(session="s", node="n001"))
    assert (point.options().measure, point.options(measure="device").measure) == ("call", "device")
    with pytest.raises(
        InputError, match=r"measure 'wall': did you mean 'call'\? a win on an accelerator is by its device or its call"
    ):
        SearchOptions(measure="wall").check()
