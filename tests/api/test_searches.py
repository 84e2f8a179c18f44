"""A real search from Python, and a real evaluation: small ones, with one baseline."""

import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import brief
import pytest
import torch

import given
import kernelswarm
from kernelswarm.api import searching as api_searching
from kernelswarm.api.optimized import Optimized
from kernelswarm.api.progress import progress, step_text
from kernelswarm.bus import STILL_USED
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import BaselineReport, BaselinesMeasured, InputError, Interval, Roofline, StopRequested


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a pool that times against eager alone: nothing is compiled for a baseline."""
    path = tmp_path_factory.mktemp("home")
    (path / "pools").mkdir()
    (path / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    return path


class Gate(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x * self.weight) * torch.tanh(x) + x


@pytest.fixture(scope="module")
def searched(home: Path) -> tuple[Optimized, list[str]]:
    notices: list[str] = []
    with brief.measurements():
        result = kernelswarm.optimize(
            Gate(), [torch.randn(64, 64)], pool="bare", budget=1, against="eager", home=home, on_notice=notices.append
        )
    return result, notices


def test_a_module_is_searched_and_its_kernel_computes_the_same(searched: tuple[Optimized, list[str]]) -> None:
    result, notices = searched
    assert result.result.problem == "gate" and result.result.correct == 1
    x = torch.randn(64, 64)
    with torch.no_grad():
        torch.testing.assert_close(result.best(x), result.traced.operator(x))  # type: ignore[misc]
    assert any(text.startswith("1 of 1 candidates") for text in notices)


def test_the_finished_file_is_there_whether_it_wins_or_not(searched: tuple[Optimized, list[str]]) -> None:
    result, _ = searched
    assert f"session {result.session}, node n001" in result.file and "eager" in result.file


def test_the_winner_goes_into_a_model_and_out_again(searched: tuple[Optimized, list[str]]) -> None:
    result, _ = searched
    model, x = torch.nn.Sequential(Gate(), Gate()), torch.randn(64, 64)
    with torch.no_grad():
        expected = model(x)
        with kernelswarm.apply(model, result, best=True) as applied:
            assert applied.names == ("0", "1")
            torch.testing.assert_close(model(x), expected)
    assert type(model[0]) is Gate


def test_a_file_is_evaluated(home: Path, tmp_path: Path, searched: tuple[Optimized, list[str]]) -> None:
    (tmp_path / "mine.py").write_text("import torch\n\ndef kernel(x, w):\n    return x - w\n")
    (tmp_path / "problem.py").write_text(given.SOURCE)
    evaluation = kernelswarm.evaluate(tmp_path / "problem.py", tmp_path / "mine.py", pool="bare", home=home)
    assert (evaluation.verdict, evaluation.correct, evaluation.win) == ("wrong_numbers", False, False)
    assert evaluation.reason is not None and evaluation.session.startswith("problem-")


def test_the_minutes_of_a_search_begin_before_it_is_traced_which_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    traced_at: list[float] = []
    began_at: list[float] = []
    notices: list[str] = []

    class Timed(Gate):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            traced_at.append(time.monotonic())
            return super().forward(x)

    @contextlib.asynccontextmanager
    async def refusing(*_: Any, began: float, **__: Any) -> AsyncIterator[None]:
        began_at.append(began)
        raise InputError("it is not searched")
        yield

    monkeypatch.setattr(api_searching, "searching", refusing)
    with pytest.raises(InputError, match="it is not searched"):
        kernelswarm.optimize(Timed(), [torch.randn(2, 64)], minutes=1, home=tmp_path, on_notice=notices.append)
    assert began_at[0] < traced_at[0]
    assert [notice.partition(" (")[0] for notice in notices] == ["tracing Timed"]


@pytest.mark.parametrize(
    ("problem", "options", "sentence"),
    [
        ("problem.py", {"pool": "bare", "against": "compile"}, "pool bare times candidates against eager only"),
        ("problem.py", {"against": "fastest"}, "a win is measured against best, compile, eager"),
        ("nowhere.py", {}, "there is no file .*nowhere.py"),
    ],
)
def test_bad_input_is_a_sentence(
    problem: str, options: dict[str, str], sentence: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("def kernel(x, w):\n    return x\n")
    (tmp_path / "problem.py").write_text(given.SOURCE)
    with pytest.raises(InputError, match=sentence):
        kernelswarm.evaluate(tmp_path / problem, tmp_path / "mine.py", home=home, **options)


def test_a_candidate_that_is_not_there_is_named(home: Path, tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(given.SOURCE)
    with pytest.raises(InputError, match=r"candidate file .*none\.py does not exist"):
        kernelswarm.evaluate(tmp_path / "problem.py", tmp_path / "none.py", home=home)


def test_progress_is_a_line_on_a_terminal_and_gone_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress(None) as say:
        say("1 of 4 candidates")
    written = capsys.readouterr().err
    assert "1 of 4 candidates" in written and written.rsplit("\r", 1)[-1] == "" and "\n" not in written


def test_progress_is_silent_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(None) as say:
        say("1 of 4 candidates")
    assert capsys.readouterr().err == ""


def test_a_wait_for_others_is_told_where_nobody_looks_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(None) as say:
        say(STILL_USED)
    written = capsys.readouterr().err
    assert "another process still uses the event bus" in written and "a cluster (nats=URL), avoids that" in written


def test_steps_in_words() -> None:
    graph = SearchGraph("s")
    opened, diagnosed = given.opened(budget=4), given.diagnosed(1.5)
    graph.apply(given.envelope_of(opened), opened)
    graph.apply(given.envelope_of(diagnosed, node="n001"), diagnosed)
    assert step_text(opened, graph) == "session s is open: timing the baselines, writing the first of 4 candidates"
    assert step_text(diagnosed, graph) == "1 of 4 candidates; the fastest stands at 1.50x"
    noise = given.diagnosed(0.01, speedup=Interval(median=3.0, low=0.01, high=900.0))
    noisy = given.graph_with(("n001", noise), first=given.opened(budget=4))
    assert step_text(noise, noisy) == "1 of 4 candidates; times are too noisy to tell"
    assert step_text(given.diagnosed(1.5, confirmation=True), graph) == (
        "1 of 4 candidates, timing finalists; the fastest stands at 1.50x"
    )
    roof = Roofline(floor_ms=0.1, fraction=0.1, limit="memory")
    report = BaselineReport(statuses=(), median_ms={"eager": 1.0}, best="eager", roofline=roof)
    assert step_text(BaselinesMeasured(report=report), graph) == "baselines: eager 1.000 ms"
    assert step_text(StopRequested(reason="user"), graph) == ""
