"""A run that is interrupted, killed, and given again: real processes, a real search, one row for each problem."""

import asyncio
import csv
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import brief
import pytest
from msgspec.structs import replace
from waiting import LONG_S

import kernelswarm
from kernelswarm.bench.runs import Outcome, Report, Row, judging
from kernelswarm.bench.runs import run as benchmark_run
from kernelswarm.bench.runs.benchmark import Task
from kernelswarm.cli.main import run
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.problem_memory import ProblemMemory
from kernelswarm.schemas import BusError, HarnessError, InputError, ProblemError, StoreError
from kernelswarm.sessions import search

BUDGET = 3


@dataclass
class Run:
    """One call, and what it told."""

    report: Report
    notices: list[str]
    done: list[str]
    """Names of the problems that it brought to an end."""


def bench(checkout: Path, home: Path, out: Path, **options: object) -> Run:
    notices: list[str] = []
    done: list[str] = []
    settings: dict[str, object] = {"pool": "bare", "budget": BUDGET, "home": home, "out": out} | options

    def on_row(row: Row, progress: object) -> None:
        done.append(row.problem)

    report = kernelswarm.run_benchmark("kernelbench", checkout, on_notice=notices.append, on_row=on_row, **settings)
    return Run(report, notices, done)


@contextmanager
def command(checkout: Path, home: Path, out: Path) -> "Iterator[subprocess.Popen[str]]":
    """The same as a program of its own, which ends with the test."""
    arguments = ["bench", "kernelbench", checkout, "--pool", "bare", "--budget", BUDGET, "--out", out]
    process = subprocess.Popen(
        [sys.executable, brief.__file__, *map(str, arguments)],
        env={**os.environ, "KERNELSWARM_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = threading.Timer(LONG_S, process.kill)
    limit.start()
    try:
        yield process
    finally:
        limit.cancel()
        process.kill()
        process.communicate()


def line_with(process: "subprocess.Popen[str]", text: str) -> str:
    """The first line on stderr with ``text`` in it."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return line.strip()
    raise AssertionError(f"no line with {text!r}: {lines}")


@dataclass
class Story:
    """Ctrl-C during the first session, kill -9 after it went on, and the call that ends it."""

    out: Path
    session: str
    """Under way when Ctrl-C came."""
    status: int
    streams: tuple[str, str]
    """On stdout and stderr after Ctrl-C."""
    left: dict[str, str]
    """The row that the kill left."""
    last: Run


@pytest.fixture(scope="module", autouse=True)
def _what_a_kill_leaves_comes_again_soon() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELSWARM_NATS_ACK_WAIT", "5")
        yield


@pytest.fixture(scope="module")
def story(checkout: Path, home: Path) -> Story:
    out = home / "rows.csv"
    with command(checkout, home, out) as first:
        session = line_with(first, "session ").removeprefix("session ")
        first.send_signal(signal.SIGINT)
        streams = first.communicate()
    with command(checkout, home, out) as second:
        line_with(second, f"going on with session {session}")
        second.send_signal(signal.SIGKILL)
        second.communicate()
    with out.open(newline="") as file:
        (left,) = csv.DictReader(file)
    return Story(out, session, first.returncode, streams, left, bench(checkout, home, out))


@pytest.mark.thorough
def test_ctrl_c_says_how_far_it_is_and_that_it_goes_on(story: Story) -> None:
    assert story.status == 130
    assert (
        "0 of 4 problems" in story.streams[0]
        and "0 of 4 problems are done: the same command goes on" in story.streams[1]
    )


@pytest.mark.thorough
def test_what_was_under_way_goes_on_in_its_session(story: Story, home: Path) -> None:
    assert (story.left["verdict"], story.left["session"]) == ("running", story.session)
    assert f"1_Gate: going on with session {story.session}" in story.last.notices
    opened = kernelswarm.sql("SELECT session, status FROM sessions WHERE problem = '1_gate'", home=home)
    assert [tuple(row) for row in opened.rows] == [(story.session, "closed")]


@pytest.mark.thorough
def test_every_problem_has_a_row(story: Story) -> None:
    rows = {row.problem: row for row in story.last.report.rows}
    assert {name: (row.verdict, row.cause) for name, row in rows.items() if name != "1_Gate"} == {
        "2_Nothing": (Outcome.refused, "refused: decides nothing"),
        "3_Ends": (Outcome.refused, "refused: ends its process"),
        "10_No_model": (Outcome.refused, "refused"),
    }
    gate = rows["1_Gate"]
    assert gate.verdict is Outcome.correct and gate.session == story.session and gate.node
    assert gate.candidates >= 1 and gate.correct >= 1 and gate.budget == BUDGET
    assert gate.eager_low and gate.eager_speedup and gate.eager_high and gate.eager_ms and gate.kernel_ms
    assert gate.eager_low <= gate.eager_speedup <= gate.eager_high
    assert (gate.compile_baseline, gate.compile_speedup) == ("eager", gate.eager_speedup)
    assert (gate.precision, gate.tf32) == ("float32", "none")
    assert "kernelswarm" in gate.versions and "torch" in gate.versions
    report = story.last.report
    assert (report.problems, report.done) == (4, 4)
    assert {miss.cause for miss in report.misses} >= {"refused", "refused: decides nothing"}


@pytest.mark.thorough
def test_what_is_done_is_not_done_again(story: Story, checkout: Path, home: Path) -> None:
    again = bench(checkout, home, story.out)
    assert again.done == [] and "4 of 4 problems are done already" in again.notices
    assert again.report == story.last.report


@pytest.mark.thorough
def test_the_command_prints_tables_or_json(
    story: Story, checkout: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNELSWARM_HOME", str(home))
    line = ["bench", "kernelbench", checkout, "--pool", "bare", "--budget", BUDGET, "--out", story.out]
    assert run([*map(str, line), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["done"] == 4 and [row["problem"] for row in report["rows"]][-1] == "10_No_model"
    assert run([*map(str, line), "--problems", "2-10"]) == 0
    shown = capsys.readouterr().out
    assert "level 1 on pool bare, 3 of 3 problems" in shown and "0.00 (0)" in shown and "refused: decides" in shown
    assert run([*map(str, line), "--problems", "11"]) == 2
    assert "names no problem" in capsys.readouterr().err


@pytest.mark.thorough
def test_what_changed_is_done_again_and_what_takes_too_long_is_a_row(story: Story, checkout: Path, home: Path) -> None:
    path = checkout / "KernelBench" / "level1" / "2_Nothing.py"
    path.write_text(path.read_text().replace("x * 0.0", "x * 0.0 + 1.0"))
    again = bench(checkout, home, story.out, problems="1-2", minutes_per_problem=0.001)
    assert again.done == ["1_Gate", "2_Nothing"]
    assert "done again, the minutes changed: 1_Gate" in again.notices
    assert "done again, its file and the minutes changed: 2_Nothing" in again.notices
    assert [row.cause for row in again.report.rows] == ["timeout", "timeout"]
    assert "still being validated" in again.report.rows[0].detail


def test_what_was_under_way_goes_on_at_once(
    checkout: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"level": 2, "problems": "1-2", "at_once": 2}
    together = asyncio.Barrier(2)

    async def cut_off(on: object, task: Task, row: Row, write: Callable[[Row], None], spectator: object) -> Row:
        write(row)
        await together.wait()
        raise BusError("the bus is lost")

    async def resumed(on: object, row: Row, spectator: object) -> Row:
        await asyncio.wait_for(together.wait(), LONG_S)
        return replace(row, verdict=Outcome.timeout)

    monkeypatch.setattr(benchmark_run, "judge", cut_off)
    with pytest.raises(BusError):
        bench(checkout, home, tmp_path / "rows.csv", **options)
    together = asyncio.Barrier(2)
    monkeypatch.setattr(benchmark_run, "resume", resumed)
    outcome = bench(checkout, home, tmp_path / "rows.csv", **options)
    assert [row.verdict for row in outcome.report.rows] == [Outcome.timeout, Outcome.timeout]


def test_a_session_that_takes_too_long_is_cut_off_and_what_breaks_beside_it_is_a_row(
    checkout: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate_problem = Device.validate_problem

    async def broken(self: Device, problem: kernelswarm.schemas.Problem) -> object:
        if problem.name == "2_nothing":
            raise HarnessError("the harness broke")
        return await validate_problem(self, problem)

    monkeypatch.setattr(Device, "validate_problem", broken)
    # At once: the limit is a hundredth of what is left of the minutes.
    monkeypatch.setattr(judging, "OVERTIME", -0.99)
    monkeypatch.setattr(judging, "LEAST_OVERTIME_S", -1e9)
    outcome = bench(checkout, home, tmp_path / "rows.csv", level=2, problems="1-3", at_once=2, minutes_per_problem=1.5)
    assert [(row.verdict, row.cause) for row in outcome.report.rows] == [
        (Outcome.timeout, "timeout"),
        (Outcome.crash, "crash: HarnessError"),
        (Outcome.refused, "refused: ends its process"),
    ]
    cut, crashed, _ = outcome.report.rows
    assert cut.session and cut.eager_speedup is None and "1.5 minutes" in cut.detail
    assert crashed.detail == "the harness broke"


def test_the_minutes_of_a_session_begin_when_its_memory_is_there(
    checkout: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []

    def looking(context: search.SearchContext, *arguments: object, **options: object) -> object:
        held.extend(holding.label for holding in context.device.memory.reservations.holdings())
        raise ProblemError("that is all")

    monkeypatch.setattr(judging, "session_on", looking)
    outcome = bench(checkout, home, tmp_path / "rows.csv", problems="1")
    assert held == ["1_gate"]
    assert [row.detail for row in outcome.report.rows] == ["that is all"]


def test_waiting_for_memory_takes_no_minutes_of_a_validation(
    checkout: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a problem that took a whole H200 for three minutes four others were late before they had begun."""

    async def slow(self: Device, problem: kernelswarm.schemas.Problem) -> object:
        await asyncio.sleep(0.6)
        raise ProblemError("that is all")

    monkeypatch.setattr(Device, "validate_problem", slow)
    monkeypatch.setattr(ProblemMemory, "waited_s", lambda memory, problem: 60.0 * (problem.name == "1_gate"))
    outcome = bench(checkout, home, tmp_path / "rows.csv", problems="1-2", minutes_per_problem=0.005)
    assert [row.detail for row in outcome.report.rows if row.problem == "1_Gate"] == ["that is all"]
    assert [row.cause for row in outcome.report.rows if row.problem == "2_Nothing"] == ["timeout"]


def test_what_ends_one_slot_ends_the_run_with_its_own_error(
    checkout: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(self: Device, problem: kernelswarm.schemas.Problem) -> object:
        raise BusError("the bus is lost")

    async def silent(on: object) -> bool:
        return False

    monkeypatch.setattr(Device, "validate_problem", lost)
    monkeypatch.setattr(judging, "answers", silent)
    with pytest.raises(BusError, match="the bus is lost"):
        bench(checkout, home, tmp_path / "rows.csv", level=2, at_once=2)


def test_a_full_disk_and_a_lost_answer_are_rows_where_bus_and_recorder_go_on(
    checkout: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter([InputError("cannot write into artifacts: No space left on device"), BusError("no answer")])

    async def failing(self: Device, problem: kernelswarm.schemas.Problem) -> object:
        raise next(errors)

    monkeypatch.setattr(Device, "validate_problem", failing)
    outcome = bench(checkout, home, tmp_path / "rows.csv", level=2, problems="1-2")
    assert [(row.verdict, row.cause) for row in outcome.report.rows] == [
        (Outcome.crash, "crash: InputError"),
        (Outcome.crash, "crash: BusError"),
    ]
    assert "No space left" in outcome.report.rows[0].detail


@pytest.mark.thorough
def test_a_recorder_that_is_slow_costs_no_result(
    checkout: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*arguments: object) -> None:
        raise StoreError("the recorder has not written event 221 within 30 s")

    monkeypatch.setattr(search, "wait_recorded", slow)
    outcome = bench(checkout, home, tmp_path / "rows.csv", level=2, problems="1")
    assert [row.verdict for row in outcome.report.rows] == [Outcome.correct]
    assert any("event 221" in notice for notice in outcome.notices)
