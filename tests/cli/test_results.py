"""What the end of a search and a verdict print: ordinary processes first, the judge beside them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import given
from kernelswarm.cli import searching
from kernelswarm.cli.commands import evaluate
from kernelswarm.cli.display.show_session import graph
from kernelswarm.cli.display.summary import print_summary
from kernelswarm.hardware.ordinary.files import TimedFile
from kernelswarm.schemas import Interval, Timing, Verdict
from kernelswarm.sessions.results import Evaluation, Ordinary, SearchResult, ShapeResult, Speedup
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.store import NodeRow, Table

ORDINARY = Ordinary(
    times_ms={"eager": 4.0, "compile": 1.1, "candidate": 1.0},
    speedups={"eager": given.interval(4.0), "compile": given.interval(1.1)},
)
RESULT = SearchResult(
    session="rmsnorm-abcde",
    problem="rmsnorm",
    pool="cpu",
    reason="budget",
    detail="n001 is 1.10x (1.08 to 1.12) as fast as torch.compile in ordinary processes",
    win=True,
    best="n001",
    speedup=Speedup(median=1.3, low=1.27, high=1.33, against="compile"),
    times_ms={"eager": 5.0, "compile": 1.3, "candidate": 1.0},
    speedups={"eager": given.interval(5.0), "compile": given.interval(1.3)},
    path="out/best.py",
)


def row_of(text: str, name: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(name)).split()


def test_the_table_shows_ordinary_processes_first(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(msgspec.structs.replace(RESULT, ordinary=ORDINARY))
    shown = capsys.readouterr().out
    assert " ".join(row_of(shown, "torch.compile")) == "torch.compile 1.100 1.10x 1.08 to 1.12 1.30x (1.27 to 1.33)"
    assert row_of(shown, "best kernel")[:3] == ["best", "kernel", "1.000"]
    assert "by the judge" in shown


def test_the_time_that_validation_took_stands_beside_the_sessions_own(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(msgspec.structs.replace(RESULT, seconds=2.0, validation_seconds=73.0))
    assert "no candidate in 2 s after 73 s of validation; ended: budget" in capsys.readouterr().out


def test_what_was_not_judged_by_the_end_is_named_with_its_last_step(capsys: pytest.CaptureFixture[str]) -> None:
    unjudged = {"n001": "verified", "n002": "compiled", "n003": "wrong_numbers"}
    print_summary(msgspec.structs.replace(RESULT, unjudged=unjudged))
    shown = capsys.readouterr().out
    assert "no candidate was judged in 0 s" in shown
    assert "unjudged n001: verified as correct, but not timed; n002: compiled; n003: wrong numbers" in shown


SHAPES = tuple(
    ShapeResult(
        shape=name,
        weight=1.0,
        speedup=given.interval(1.3),
        counted=given.interval(counted),
        against="compile",
        times_ms={"compile": 1.0, "candidate": 0.9},
        judged=ORDINARY,
    )
    for name, counted in (("main", 1.2), ("decode", 1.1))
)


@pytest.mark.parametrize(
    ("changes", "by"),
    [
        ({"ordinary": ORDINARY}, "in ordinary processes"),
        ({}, "by the judge"),
        ({"measure": "device", "device": ORDINARY, "call": ORDINARY}, "on the device"),
        ({"measure": "call", "device": ORDINARY, "call": ORDINARY}, "as a call"),
    ],
)
def test_numbers_of_several_shapes_say_what_they_are(
    changes: dict[str, Any], by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary(msgspec.structs.replace(RESULT, shapes=SHAPES, **changes))
    shown = capsys.readouterr().out
    assert "rmsnorm (geometric mean of 2 shapes)" in shown
    assert f"shape, {by}" in shown and "decode (worst)" in shown
    evaluate._print(msgspec.structs.replace(VERDICT, shapes=SHAPES, **changes), None)
    shown = " ".join(capsys.readouterr().out.split())
    assert "(geometric mean of 2 shapes)" in shown and f"shape, {by}" in shown
    assert "(geometric mean of 2 shapes)" in repr(msgspec.structs.replace(VERDICT, shapes=SHAPES, **changes))


def test_the_table_shows_the_judge_alone_where_nothing_else_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(RESULT)
    shown = capsys.readouterr().out
    assert " ".join(row_of(shown, "torch.compile")) == "torch.compile 1.300 1.30x 1.27 to 1.33"
    assert "judge" not in shown


def test_a_file_that_is_no_win_is_named_for_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    detail = "no win found: 0.97x of eager"
    print_summary(msgspec.structs.replace(RESULT, win=False, detail=detail, withdrawn=("n004", "n006")))
    shown = capsys.readouterr().out
    assert "no win found  0.97x of eager" in shown and "out/best.py  (the fastest correct one)" in shown
    assert "outside  nobody handed in n004, n006" in shown
    missing = "the finished file does not give what eager gives"
    print_summary(msgspec.structs.replace(RESULT, win=False, ordinary_missing=missing, rationale="one pass " * 60))
    shown = capsys.readouterr().out
    assert "out/best.py  (judged correct, but not timed as this file)" in shown
    assert f"{RESULT.best}: one pass one pass" in shown and "one pass …" in shown


@pytest.mark.parametrize(("reason", "says"), [("interrupted", True), ("budget", False)])
def test_an_interrupted_search_says_how_to_go_on(capsys: pytest.CaptureFixture[str], reason: str, says: bool) -> None:
    print_summary(msgspec.structs.replace(RESULT, reason=reason))
    assert (f"go on    kernelswarm fork {RESULT.session} --node {RESULT.best}" in capsys.readouterr().out) is says


def test_a_reason_that_stands_above_is_not_printed_again(capsys: pytest.CaptureFixture[str]) -> None:
    result = msgspec.structs.replace(RESULT, win=False, detail="no candidate was made: it branches; use a mask")
    for failures, sentence in (
        ({"generator made no candidate: it branches; use a mask"}, "no candidate was made: see above"),
        ({"generator made no candidate: nothing to fuse"}, "it branches; use a mask"),
        ((), "it branches; use a mask"),
    ):
        print_summary(result, failures)
        shown = capsys.readouterr().out
        assert f"no win found  {sentence}" in shown or f"no candidate was made: {sentence}" in shown


def test_the_result_is_printed_before_others_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The bus of a search may serve other processes of the machine for minutes more."""
    printed: list[str] = []

    @asynccontextmanager
    async def fake(*_: object, **__: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(session="rmsnorm-abcde", notes=())
        printed.append(capsys.readouterr().out)

    async def follow(*_: object) -> None:
        pass

    monkeypatch.setattr(searching, "searching", fake)
    monkeypatch.setattr(searching, "follow", follow)
    monkeypatch.setattr(searching, "write_result", lambda *_: RESULT)
    configuration = searching.SearchConfiguration(
        None,
        "cpu",
        SearchOptions(),
        tmp_path,
        nats="",
        workers=True,
        out_dir=None,
        json=False,  # type: ignore[arg-type]
    )
    assert searching.search(configuration) == 0
    assert "best kernel" in printed[0] and "out/best.py" in printed[0]


VERDICT = Evaluation(
    verdict=Verdict.correct,
    correct=True,
    win=True,
    reason=None,
    evidence={},
    isolation="process",
    pool="cpu",
    speedup=Speedup(median=1.1, low=1.08, high=1.12, against="compile"),
    times_ms=RESULT.times_ms,
    roofline_fraction=None,
    session="rmsnorm-abcde",
)


def test_a_verdict_shows_ordinary_processes_first(capsys: pytest.CaptureFixture[str]) -> None:
    both = msgspec.structs.replace(VERDICT, speedup=RESULT.speedup, ordinary_speedup=VERDICT.speedup)
    evaluate._print(msgspec.structs.replace(both, ordinary=ORDINARY), Path("mine.py"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "win: 1.10x (1.08 to 1.12) against torch.compile in ordinary processes"
    assert lines[3].startswith("eager 4.000 ms") and "this candidate 1.000 ms" in lines[3]
    assert lines[4].startswith("judge: 1.30x (1.27 to 1.33) against torch.compile; eager 5.000 ms")


def test_a_verdict_prints_as_lines_in_python() -> None:
    right = msgspec.structs.replace(VERDICT, detail="n001 is 1.10x as fast as torch.compile")
    assert repr(right).splitlines() == [
        "correct on pool cpu; n001 is 1.10x as fast as torch.compile",
        "eager 5 ms, torch.compile 1.3 ms, kernel 1 ms",
        "session rmsnorm-abcde: kernelswarm show rmsnorm-abcde",
    ]
    wrong = msgspec.structs.replace(
        VERDICT, verdict=Verdict.wrong_numbers, correct=False, reason="wrong numbers: 1 of 2"
    )
    assert str(wrong).splitlines()[0] == "wrong numbers on pool cpu: 1 of 2" and len(str(wrong).splitlines()) == 2


def test_a_table_prints_as_columns_in_python() -> None:
    table = Table(columns=("node", "speedup"), types=("VARCHAR", "DOUBLE"), rows=(("n001", 1 / 3), ("n002", None)))
    assert repr(table).splitlines() == ["node  speedup", "n001  0.333333", "n002  NULL", "(2 rows)"]
    long = msgspec.structs.replace(table, rows=(("x" * 99 + "\n", 1.0),) * 50)
    lines = str(long).splitlines()
    assert len(lines) == 22 and lines[-1] == "(20 of 50 rows)" and len(lines[1]) < 70


def test_a_timed_file_prints_as_lines_in_python() -> None:
    missing = TimedFile(problem="rmsnorm", timing=None, missing="it does not import")
    assert str(missing) == "rmsnorm: not timed in ordinary processes: it does not import"
    ratio = Interval(median=2.0, low=1.9, high=2.1)
    medians = {"compile": 1.0, "candidate": 0.5}
    timing = Timing(series=(), speedup={"compile": ratio}, best="compile", median_ms=medians)
    assert str(TimedFile(problem="rmsnorm", timing=timing)).splitlines() == [
        "rmsnorm in ordinary processes: 2.00x (1.90 to 2.10) of torch.compile",
        "torch.compile 1 ms, kernel 0.5 ms",
    ]


def test_a_verdict_says_why_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate._print(msgspec.structs.replace(VERDICT, win=False, ordinary_missing="it does not import there"), None)
    assert (
        "no win: 1.10x (1.08 to 1.12) against torch.compile; not timed in ordinary processes: it does not import"
        in (capsys.readouterr().out)
    )


def test_a_verdict_on_a_fast_kernel_that_is_no_win_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    detail = "no win found: n001 stands at 1.10x of eager by the judge, and it ended before a second run confirmed that"
    evaluate._print(msgspec.structs.replace(VERDICT, win=False, detail=detail), None)
    lines = capsys.readouterr().out.replace("\n", " ")
    assert "torch.compile why: n001 stands at 1.10x of eager by the judge, and it ended before" in lines


def test_the_graph_shows_both_and_a_win_needs_both() -> None:
    node = NodeRow(
        session="s", node="n001", number=1, parent="", intent="draft", memory="", state="profiled",
        confirmed=True, at="",
        verdict="correct", speedup=1.3, speedup_low=1.2, speedup_high=1.4,
        ordinary_speedup=0.9, ordinary_low=0.8, ordinary_high=1.0,
    )  # fmt: skip
    label = graph((node,), "n001").children[0].label
    assert "0.90x (0.80 to 1.00) in ordinary processes, 1.30x (1.20 to 1.40) by the judge" in str(label)
    won = graph((msgspec.structs.replace(node, ordinary_low=1.01),), "n001").children[0].label
    assert any(span.style == "green" for span in won.spans) and not any(span.style == "green" for span in label.spans)  # type: ignore[union-attr]


def test_the_graph_says_what_speaks_against_a_speedup_that_was_timed_once() -> None:
    node = NodeRow(
        session="s", node="n001", number=1, parent="", intent="draft", memory="", state="profiled", confirmed=False,
        at="", verdict="correct", speedup=6.85, speedup_low=3.64, speedup_high=12.91, background_load=0.51,
    )  # fmt: skip
    doubts = "timed once, beside a background load of 51% and with a wide interval"
    assert f"6.85x (3.64 to 12.91)  {doubts}" in str(graph((node,), "n001").children[0].label)
    confirmed = msgspec.structs.replace(node, confirmed=True)
    assert "timed once" not in str(graph((confirmed,), "n001").children[0].label)


# An accelerator has two numbers.

DEVICE = Ordinary(
    times_ms={"eager": 5.0, "compile": 1.3, "candidate": 1.0},
    speedups={"eager": given.interval(5.0), "compile": given.interval(1.3)},
)
ON_ACCELERATOR = msgspec.structs.replace(
    RESULT, pool="h200", measure="device", device=DEVICE, call=ORDINARY, roofline_fraction=0.5
)


@pytest.mark.parametrize(
    ("measure", "row"),
    [
        ("device", "torch.compile 1.3 1.30x 1.27 to 1.33 1.1 1.10x 1.08 to 1.12"),
        ("call", "torch.compile 1.1 1.10x 1.08 to 1.12 1.3 1.30x 1.27 to 1.33"),
    ],
)
def test_device_and_call_have_columns_of_their_own(measure: str, row: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(msgspec.structs.replace(ON_ACCELERATOR, measure=measure))
    shown = capsys.readouterr().out
    assert " ".join(row_of(shown, "torch.compile")) == row
    head = row_of(shown, "rmsnorm")
    assert (
        head.index("device") < head.index("call") if measure == "device" else head.index("call") < head.index("device")
    )
    assert f"win ({measure})" in shown and "ordinary" not in shown.partition("win (")[0] and "judge" not in shown


def test_the_time_in_a_warm_cache_stands_beside_the_devices(capsys: pytest.CaptureFixture[str]) -> None:
    warm = msgspec.structs.replace(DEVICE, warm_ms={"eager": 4.5, "compile": 1.2, "candidate": 0.7})
    print_summary(msgspec.structs.replace(ON_ACCELERATOR, device=warm))
    shown = capsys.readouterr().out
    assert " ".join(row_of(shown, "torch.compile")) == "torch.compile 1.3 1.2 1.30x 1.27 to 1.33 1.1 1.10x 1.08 to 1.12"
    assert "warm cache" in shown


def test_a_call_that_was_not_timed_leaves_its_columns_empty(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(msgspec.structs.replace(ON_ACCELERATOR, call=None))
    assert " ".join(row_of(capsys.readouterr().out, "torch.compile")) == "torch.compile 1.3 1.30x 1.27 to 1.33"


def test_a_nodes_line_names_both_numbers() -> None:
    node = NodeRow(
        session="s", node="n001", number=1, parent="", intent="draft", memory="clean_slate", state="profiled",
        confirmed=True, at="", verdict="correct", speedup=1.5, speedup_low=1.4, speedup_high=1.6, measure="device",
        device_speedup=1.5, device_low=1.4, device_high=1.6, call_speedup=0.9, call_low=0.8, call_high=1.0,
    )  # fmt: skip
    (line,) = graph((node,), "n001").children
    assert "1.50x (1.40 to 1.60) on the device, 0.90x (0.80 to 1.00) as a call" in str(line.label)
