"""``kernelswarm tasks`` on the command line: what is asked wrongly, and text out of what is answered."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from logged import a_session, write_session
from typer.testing import CliRunner

import given
from kernelswarm.agents.synthesizer.contract import what_to_write
from kernelswarm.bus import embedded
from kernelswarm.cli.commands.tasks import EXAMPLES, app
from kernelswarm.cli.display import task_text
from kernelswarm.cli.display.dashboard import best_text
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    FINISHED,
    OUTSIDE,
    BaselinesMeasured,
    CandidateProfiled,
    ClaimRequested,
    Event,
    Intent,
    Interval,
    MemoryOperator,
    NodePlanned,
    ProfileReport,
    SessionClosed,
    ShapeTiming,
    StopRequested,
    SynthesisFailed,
    Verdict,
)
from kernelswarm.sessions.outside import verdicts, views
from kernelswarm.sessions.outside.joining import outside_author
from kernelswarm.sessions.outside.records import HandInAnswer
from kernelswarm.sessions.results import result_of

CLAIM_LATER = "kernelswarm tasks claim --wait 600"


@pytest.mark.parametrize("command", ["list s-1", "claim", "show s-1/n001", "leaderboard s-1", "release s-1/n001/1"])
def test_without_a_running_search_the_way_to_one_is_named(kernelswarm: Callable, command: str) -> None:
    ran = kernelswarm("tasks", *command.split())
    assert ran.status == 2
    assert "no search is running" in ran.err and "kernelswarm optimize PROBLEM --author outside" in ran.err


@pytest.mark.parametrize(
    ("command", "status", "error", "ways"),
    [
        ("show nowhere/n001", 2, "there is no session 'nowhere'", ["kernelswarm sessions"]),
        ("leaderboard nowhere", 2, "there is no session 'nowhere'", ["kernelswarm sessions"]),
        ("show rmsnorm-7kq2m/n099", 2, "has no node 'n099'; there is n001 to n003", []),
        ("show rmsnorm-7kq2m", 2, "'rmsnorm-7kq2m' is not SESSION/NODE", ["kernelswarm tasks list"]),
        ("claim", 2, "no search is running", ["kernelswarm optimize PROBLEM --author outside", CLAIM_LATER]),
    ],
)
def test_json_is_asked_for_and_comes_where_nothing_can_be_shown(
    kernelswarm: Callable, recorded: Path, command: str, status: int, error: str, ways: list[str]
) -> None:
    ran = kernelswarm("tasks", *command.split(), "--json")
    answer = msgspec.json.decode(ran.out)
    assert ran.status == status and error in answer["error"] and error in " ".join(ran.err.split())
    assert answer["try"][: len(ways)] == ways


def test_a_session_that_has_ended_is_read_out_of_the_log(kernelswarm: Callable, recorded: Path) -> None:
    ran = kernelswarm("tasks", "leaderboard", "rmsnorm-7kq2m", "--json")
    board = msgspec.json.decode(ran.out)
    assert (ran.status, board["state"], board["best"]) == (0, "closed", board["places"][0]["task"][-4:])
    ran = kernelswarm("tasks", "show", board["places"][0]["task"], "--json")
    answer = msgspec.json.decode(ran.out)
    assert ran.status == 0 and answer["correct"] and answer["source"]
    ran = kernelswarm("tasks", "list", "rmsnorm-7kq2m", "--json")
    assert (ran.status, msgspec.json.decode(ran.out)) == (0, [])


def test_a_session_that_has_ended_or_was_killed_says_how_to_go_on(kernelswarm: Callable, recorded: Path) -> None:
    ran = kernelswarm("tasks", "claim", "rmsnorm-7kq2m", "--json")
    answer = msgspec.json.decode(ran.out)
    assert ran.status == 2 and answer["error"].startswith("session rmsnorm-7kq2m is closed: ")
    assert answer["try"] == ["kernelswarm tasks leaderboard rmsnorm-7kq2m"]
    ran = kernelswarm("tasks", "claim", "rmsnorm-7kq2m/n001", "--wait", "600")
    assert ran.status == 2 and "waiting" not in ran.err, "nobody waits for what is over"
    ran = kernelswarm("tasks", "finish", "rmsnorm-7kq2m", "--json")
    assert ran.status == 0 and msgspec.json.decode(ran.out)["state"] == "closed"
    write_session(recorded, "killed-00000", events=5)
    for command in ("claim killed-00000/n001", "release killed-00000/n001/1", "finish killed-00000"):
        ran = kernelswarm("tasks", *command.split(), "--json")
        answer = msgspec.json.decode(ran.out)
        assert ran.status in (1, 2) and answer["error"].startswith("nobody serves session killed-00000 just now")
        assert answer["try"] == ["kernelswarm resume killed-00000"]
    shown = kernelswarm("tasks", "show", "killed-00000/n001", "--json")
    assert "kernelswarm resume killed-00000" in shown.out


def test_a_claim_that_waits_says_so_in_a_line_and_is_refused_when_its_time_is_over(kernelswarm: Callable) -> None:
    ran = kernelswarm("tasks", "claim", "--wait", "0.2")
    assert ran.status == 2 and ran.out == ""
    assert ran.err.splitlines()[0] == "no search is running yet; waiting for one"
    assert "kernelswarm optimize PROBLEM --author outside" in ran.err


async def test_an_author_who_waits_joins_the_search_that_starts_meanwhile(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def join() -> str:
        async with outside_author(tmp_path, "", "me", wait_s=60, waiting=started.set) as author:
            return author.agent

    joining = asyncio.create_task(join())
    await asyncio.wait_for(started.wait(), 30)
    async with embedded(tmp_path):
        assert await asyncio.wait_for(joining, 60) == "me"


@pytest.mark.parametrize("command", EXAMPLES)
def test_every_command_shows_examples(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"])
    assert shown.exit_code == 0 and "Examples" in shown.output and f"kernelswarm tasks {command}" in shown.output


def say(graph: SearchGraph, event: Event, node: str = "") -> None:
    graph.apply(given.envelope_of(event, node=node, index=100 + len(graph.nodes)), event)


@pytest.fixture
def graph() -> SearchGraph:
    """One node was handed in and judged, its child is held."""
    graph = SearchGraph("s-test1")
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.inherit, synthesizer=OUTSIDE)
    child = msgspec.structs.replace(plan, parent="n001", intent=Intent.improve)
    events = [
        (given.opened(synthesizer=OUTSIDE), ""),
        (plan, "n001"),
        (given.candidate("def kernel(x, w):\n    return x\n", backend=OUTSIDE), "n001"),
        (given.diagnosed(1.4), "n001"),
        (child, "n002"),
        (ClaimRequested(agent="alice", minutes=30.0), ""),
    ]
    for index, (event, node) in enumerate(events):
        graph.apply(given.envelope_of(event, node=node, index=index), event)
    return graph


def test_a_brief_says_what_to_write_and_what_to_start_from(
    graph: SearchGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    task_text.print_brief(views.brief(graph, "n002"))
    text = capsys.readouterr().out
    assert "s-test1/n002  improve, held" in text and "lease     s-test1/n002/1" in text
    assert "def kernel(x, w)" in text and "def reference(x, w)" in text
    assert "the kernel to start from\ndef kernel(x, w):\n    return x" in text


def test_a_long_source_is_left_out_of_a_brief_which_says_where_it_is(
    graph: SearchGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    say(graph, given.candidate("# long\n" * 1000, backend=OUTSIDE), "n001")
    brief = views.brief(graph, "n002")
    assert brief.parent is not None and brief.parent.source == "" and brief.tried[0].task == "s-test1/n001"
    assert brief.notes[1].startswith("the source of s-test1/n001 has 7,000 characters; `kernelswarm tasks show")
    assert verdicts.known_node(graph, "n001").source
    task_text.print_brief(brief)
    text = capsys.readouterr().out
    assert "the kernel to start from" not in text and "best      s-test1/n001" in text


def test_a_brief_names_a_better_kernel_than_its_parent_and_why_ones_own_file_was_refused(graph: SearchGraph) -> None:
    def judge(node: str, diagnosis: Event) -> None:
        say(graph, NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.inherit), node)
        say(graph, given.candidate(f"# {node}", backend=OUTSIDE), node)
        say(graph, diagnosis, node)

    assert not any("best kernel" in note for note in views.brief(graph, "n002").notes)
    reason = "wrong numbers: 0.5, not 0.25, at shape main (seed 249093807598757)"
    judge("n003", given.diagnosed(0.0, Verdict.wrong_numbers, summary=reason))
    judge("n004", given.diagnosed(43.9))
    brief = views.brief(graph, "n002")
    (note,) = (note for note in brief.notes if "best kernel" in note)
    assert (
        note.startswith("the best kernel by now is s-test1/n004 by outside, 43.9")
        and "`kernelswarm tasks show s-test1/n004 --json`" in note
    )
    assert brief.parent is not None and brief.parent.task == "s-test1/n001"
    refused = {place.task: place.summary for place in brief.tried}["s-test1/n003"]
    assert refused == reason.removesuffix(" (seed 249093807598757)")


@pytest.mark.parametrize(
    ("signature", "write"),
    [
        (("x", "w"), "def kernel(x, w): the parameters and answers of `reference`"),
        (
            ("x", "w", "cotangents"),
            "def kernel(x, w): the parameters and answers of `reference`; differentiable, or with ",
        ),
    ],
)
def test_cotangents_are_no_parameter_of_a_kernel(signature: tuple[str, ...], write: str) -> None:
    facts = msgspec.structs.replace(given.facts(), signature=signature)
    text = what_to_write(facts)
    assert text.startswith(write) and ("def backward(x, w, cotangents...)" in text) == ("differentiable" in write)


def test_a_floor_that_a_kernel_passed_is_in_no_brief(graph: SearchGraph) -> None:
    graph.baselines = next(event for event, _ in a_session() if isinstance(event, BaselinesMeasured))
    assert views.brief(graph, "n002").floor_ms
    say(graph, given.diagnosed(1.4, roofline_fraction=2.73), "n001")
    assert views.brief(graph, "n002").floor_ms is None


def test_a_brief_says_that_baselines_are_not_timed_yet_and_what_the_problem_asks(
    graph: SearchGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    (note,) = views.brief(graph, "n002").notes
    assert note.startswith("the baselines are not timed yet")
    facts = given.facts(operators=("aten.topk.default",))
    index = msgspec.structs.replace(facts.shapes[0].outputs[0], dtype="int64")
    shape = msgspec.structs.replace(facts.shapes[0], outputs=(facts.shapes[0].outputs[0], index))
    graph.opened = given.opened(synthesizer=OUTSIDE, facts=msgspec.structs.replace(facts, shapes=(shape,)))
    graph.baselines = next(event for event, _ in a_session() if isinstance(event, BaselinesMeasured))
    brief = views.brief(graph, "n002")
    assert brief.notes == () and "of equal values those count that the reference chooses" in brief.contract[-1]
    task_text.print_brief(brief)
    assert "contract  timed at shape main\n" in capsys.readouterr().out


def test_a_live_display_says_who_it_waits_for_and_how_to_claim(graph: SearchGraph) -> None:
    assert task_text.outside_text(graph) == (
        "outside authors: 1 task held by alice; to claim: kernelswarm tasks claim s-test1"
    )
    graph.stop = StopRequested(reason=FINISHED)  # then it gives no tasks
    assert task_text.outside_text(graph) == "outside authors: 1 task held by alice"


def test_a_leaderboard_has_a_row_for_each_candidate(graph: SearchGraph, capsys: pytest.CaptureFixture[str]) -> None:
    task_text.print_leaderboard(views.leaderboard(graph))
    text = capsys.readouterr().out
    assert "s-test1/n001" in text and "1.40x" in text and "s-test1/n002" not in text


def test_what_speaks_against_a_speedup_stands_beside_it(graph: SearchGraph, capsys: pytest.CaptureFixture[str]) -> None:
    timing = msgspec.structs.replace(given.against_all(1.0, eager=1.4), background_load=0.5)
    report = ProfileReport(verdict=Verdict.correct, isolation="x", timing=timing)
    event = CandidateProfiled(report=report)
    graph.apply(given.envelope_of(event, node="n001", index=9), event)
    (place,) = views.leaderboard(graph).places
    answer = verdicts.node_answer(graph, "n001")
    assert place.doubts == answer.doubts == "timed once, beside a background load of 50%"
    task_text.print_leaderboard(views.leaderboard(graph))
    task_text.print_answer(answer)
    text = " ".join(capsys.readouterr().out.split())
    assert f"{place.doubts}; as measured" in text and f"against torch.compile, {place.doubts}" in text

    graph.nodes["n001"].confirmation_diagnosis = graph.nodes["n001"].diagnosis
    assert not views.leaderboard(graph).places[0].doubts, "it was timed again"


def test_times_over_several_shapes_are_said_to_be_means(graph: SearchGraph, capsys: pytest.CaptureFixture[str]) -> None:
    at_each = given.against_all(1.0, eager=1.4)
    shapes = tuple(ShapeTiming(shape=name, weight=1.0, timing=at_each) for name in ("short", "long"))
    timing = msgspec.structs.replace(at_each, shapes=shapes)
    event = CandidateProfiled(report=ProfileReport(verdict=Verdict.correct, isolation="x", timing=timing))
    graph.apply(given.envelope_of(event, node="n001", index=9), event)

    task_text.print_answer(answer := verdicts.node_answer(graph, "n001"))

    assert answer.timed_shapes == 2
    assert "geometric mean of 2 shapes" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("platform", "names"),
    [("cpu", ("by the judge", "in ordinary processes")), ("nvidia", ("on the device", "as a call"))],
)
def test_both_speedups_of_a_finalist_are_named_by_what_they_are(
    graph: SearchGraph, capsys: pytest.CaptureFixture[str], platform: str, names: tuple[str, str]
) -> None:
    graph.opened = given.opened(synthesizer=OUTSIDE, pool=given.pool(platform=platform))
    event = given.diagnosed(1.4, ordinary=given.interval(0.9), confirmation=True)
    graph.apply(given.envelope_of(event, node="n001", index=9), event)
    is_win = platform == "nvidia"
    numbers = {"speedup": event.speedup, "call": event.ordinary}
    if not is_win:
        numbers = {"speedup": event.ordinary, "judged": event.speedup}
    closed = SessionClosed(reason=FINISHED, best="n001", win=is_win, detail="no win found", **numbers)
    graph.apply(given.envelope_of(closed, index=10), closed)
    board = views.leaderboard(graph)
    (place,) = board.places
    for shown in (place, board):
        beside = (
            (shown.call_speedup, shown.ordinary_speedup) if is_win else (shown.ordinary_speedup, shown.call_speedup)
        )
        assert (shown.speedup, *beside) == (event.speedup, event.ordinary, None)
    assert place.win == verdicts.node_answer(graph, "n001").win == is_win
    task_text.print_leaderboard(board)
    task_text.print_finish(views.finish(graph))
    text = capsys.readouterr().out
    assert all(name in text for name in (*names, "1.40x", "0.90x"))
    assert text.count("withdrawn  nobody handed in s-test1/n002") == 2


def test_a_closed_session_names_no_seed_of_the_judge(graph: SearchGraph) -> None:
    detail = "no win found: the only candidate was not right: wrong numbers at shape main"
    say(graph, SessionClosed(reason="budget", best="", detail=f"{detail} (seed 249093807598757)"))
    result = result_of(graph, "cpu", 1.0)
    assert {detail} == {views.leaderboard(graph).detail, views.finish(graph).detail, result.detail}


def test_a_win_is_what_the_session_calls_one(graph: SearchGraph) -> None:
    def is_win() -> bool:
        (place,) = views.leaderboard(graph).places
        assert place.win == verdicts.node_answer(graph, "n001").win
        return place.win

    graph.opened = given.opened(synthesizer=OUTSIDE, confirmations=3)
    assert verdicts.node_answer(graph, "n001").faster and not is_win(), "it was timed once"
    say(graph, given.diagnosed(1.4, confirmation=True, ordinary=given.interval(1.3)), "n001")
    assert is_win()
    say(graph, SessionClosed(reason="minutes", best="n001", detail="no win found"))
    assert verdicts.node_answer(graph, "n001").faster and not is_win(), "the close has the last word"


def test_what_nobody_handed_in_is_no_failure_and_what_is_not_judged_in_time_says_so(
    graph: SearchGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = graph.nodes["n001"].plan
    assert plan is not None
    say(graph, plan, "n003")
    say(graph, StopRequested(reason=FINISHED))
    failed = SynthesisFailed(backend=OUTSIDE, reason="nobody handed in a file before the session ended")
    say(graph, failed, "n003")
    say(graph, given.diagnosed(verdict=Verdict.synthesis_failed), "n003")
    say(graph, given.candidate("late", backend=OUTSIDE), "n002")
    answer = verdicts.node_answer(graph, "n003")
    assert (answer.state, answer.verdict) == ("withdrawn", None) and views.rows(graph)[-1].verdict is None
    assert "nobody handed in" in answer.summary
    assert [tried.task for tried in views.brief(graph, "n002").tried] == ["s-test1/n001"]
    going_on = views.finish(graph)
    assert (going_on.state, going_on.judging) == ("open", ("s-test1/n002",))
    assert going_on.detail.startswith("not ended yet: s-test1/n002 is judged, then the best candidates are confirmed")
    say(graph, SessionClosed(reason="minutes", best="n001", detail="no win found"))
    late = verdicts.node_answer(graph, "n002")
    assert late.state == "not judged" and "the session ended (its minutes were over) before" in late.summary
    assert views.finish(graph).judging == () and views.finish(graph).detail == "no win found"
    task_text.print_hand_in(HandInAnswer(lease="s-test1/n002/1", accepted=True, answer=late))
    assert "s-test1/n002  not judged\n" in capsys.readouterr().out


def test_a_time_that_is_too_noisy_is_said_to_be_wherever_a_speedup_is_shown(
    graph: SearchGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = Interval(median=10.77, low=0.6, high=14.0)
    event = given.diagnosed(0.6, speedup=noise)
    graph.apply(given.envelope_of(event, node="n001", index=9), event)
    answer, board, (row, _) = verdicts.node_answer(graph, "n001"), views.leaderboard(graph), views.rows(graph)
    assert answer.noisy and board.places[0].noisy and row.noisy
    task_text.print_answer(answer)
    task_text.print_leaderboard(board)
    task_text.print_tasks([row])
    shown = capsys.readouterr().out
    assert "10.77" not in shown and shown.count("too noisy") == 3
    assert best_text(graph).plain == "best too noisy"
