"""How searches end, as real runs: nothing to try, interrupted, killed and resumed. Timed against eager alone."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import brief
import pytest
from waiting import LONG_S, within

from kernelswarm.cli.report import kept_folder
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.sessions.recorded_session import read_session

SHAPES = "import torch\nshapes = {'main': dict(n=64)}\n"
INPUTS = "def inputs(generator, n):\n    return [torch.randn(n, n, generator=generator)]\n"
LEFT_TO_PYTORCH = SHAPES + INPUTS + "def reference(x):\n    return torch.linalg.svd(x)[1]\n"
SIMPLE = SHAPES + INPUTS + "def reference(x):\n    return torch.sigmoid(x) * 2 + 1\n"


@pytest.fixture(scope="module")
def measured_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all, because a new one measures the machine first."""
    home = tmp_path_factory.mktemp("home")
    (home / "pools").mkdir()
    (home / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    detect(find_pool("bare", home), home)  # measures the machine, which each process would do while others run
    return home


@pytest.fixture(autouse=True)
def home(measured_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELSWARM_HOME", str(measured_home))
    monkeypatch.setenv("KERNELSWARM_NATS_ACK_WAIT", "5")  # what a kill leaves comes again soon
    monkeypatch.delenv("KERNELSWARM_NATS", raising=False)
    return measured_home


async def started(*arguments: str, folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, brief.__file__, *arguments),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def line(program: asyncio.subprocess.Process, start: str) -> str:
    """The next line on stderr that begins with ``start``."""
    assert program.stderr is not None
    while text := (await within(program.stderr.readline(), LONG_S)).decode():
        if text.startswith(start):
            return text.strip()
    raise AssertionError(f"it ended without {start!r}")


async def end(program: asyncio.subprocess.Process) -> tuple[int, str, str]:
    out, err = await within(program.communicate(), LONG_S)
    assert program.returncode is not None
    return program.returncode, out.decode(), err.decode()


def result(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return content


async def test_where_nothing_can_be_tried_it_says_why_once_shows_the_baselines_and_ends_with_3(tmp_path: Path) -> None:
    (tmp_path / "values.py").write_text(LEFT_TO_PYTORCH)
    program = await started("optimize", "values.py", "--pool", "bare", "--budget", "9", "--out", "o", folder=tmp_path)
    status, out, err = await end(program)
    assert status == 3, err
    assert err.count("generator made no candidate") == err.count("made no candidate") == 1 and "baselines: eager" in err
    assert "no candidate was made: " in out and "ended: nothing to try" in out
    report = result(tmp_path / "o")
    assert report["reason"] == "nothing_to_try" and report["candidates"] == 0 and not report["best"]
    assert report["times_ms"].keys() == {"eager"}


async def test_an_interrupted_search_counts_what_was_finished(tmp_path: Path) -> None:
    (tmp_path / "simple.py").write_text(SIMPLE)
    program = await started("optimize", "simple.py", "--pool", "bare", "--budget", "30", "--out", "o", folder=tmp_path)
    first = await line(program, "n0")
    os.killpg(program.pid, signal.SIGINT)
    status, _, err = await end(program)
    assert status == 130, err
    judged = 1 + sum(" against " in text for text in err.splitlines())
    report = result(tmp_path / "o")
    assert report["reason"] == "interrupted"
    assert " against " in first and report["candidates"] == report["correct"] == judged
    assert report["best"] and report["times_ms"].keys() == {"eager", "candidate"}


async def test_an_interrupt_while_finalists_are_timed_ends_as_any_other_does(tmp_path: Path) -> None:
    """The status was 0, as if the search had ended by itself."""
    (tmp_path / "simple.py").write_text(SIMPLE)
    program = await started("optimize", "simple.py", "--pool", "bare", "--budget", "1", "--out", "o", folder=tmp_path)
    await line(program, "n001")
    os.killpg(program.pid, signal.SIGINT)
    status, out, err = await end(program)
    assert status == 130, err
    report = result(tmp_path / "o")
    assert (report["reason"], report["best"], report["win"]) == ("interrupted", "n001", False)
    # By whether its first timing lies above 1, which a busy machine decides.
    reasons = ("it ended before a second run confirmed that", "a win needs an interval above 1")
    assert any(reason in report["detail"] for reason in reasons)
    assert f"go on    kernelswarm fork {report['session']} --node n001" in out


@pytest.mark.thorough  # tests/cli/test_following.py has each of the two ends
async def test_a_second_interrupt_leaves_files_if_the_session_was_closed_and_says_so_if_not(
    tmp_path: Path, home: Path
) -> None:
    (tmp_path / "simple.py").write_text(SIMPLE)
    program = await started("optimize", "simple.py", "--pool", "bare", "--budget", "30", "--out", "o", folder=tmp_path)
    session = (await line(program, "session ")).split()[1]
    await line(program, "n0")
    os.killpg(program.pid, signal.SIGINT)
    await line(program, "closing the session")
    os.killpg(program.pid, signal.SIGINT)
    status, _, err = await end(program)
    assert status == 130, err
    closed = (await read_session(home, session)).graph().closed is not None
    assert closed is (tmp_path / "o" / "result.json").exists() is ("stays open" not in err)


@pytest.mark.thorough  # tests/agents/test_resume.py kills and resumes as well
async def test_a_search_that_was_killed_writes_where_it_was_told_to_once_it_is_resumed(
    tmp_path: Path, home: Path
) -> None:
    (tmp_path / "simple.py").write_text(SIMPLE)
    program = await started("optimize", "simple.py", "--pool", "bare", "--budget", "3", "--out", "o", folder=tmp_path)
    session = (await line(program, "session ")).split()[1]
    await line(program, "n0")
    program.kill()
    await within(program.wait())
    assert kept_folder(home, session) == tmp_path / "o" and not (tmp_path / "o" / "result.json").exists()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    status, _, err = await end(await started("resume", session, folder=elsewhere))
    assert status == 0, err
    assert result(tmp_path / "o")["session"] == session


async def test_minutes_are_the_time_of_all_of_it_and_what_was_not_judged_by_then_is_said(tmp_path: Path) -> None:
    (tmp_path / "simple.py").write_text(SIMPLE)
    options = ("--pool", "bare", "--budget", "500", "--minutes", "0.05", "--out", "o")
    status, out, err = await end(await started("optimize", "simple.py", *options, folder=tmp_path))
    assert status == 0, err
    assert "ended: minutes" in out and result(tmp_path / "o")["reason"] == "minutes"
    text = " ".join(out.split())
    assert "its 0.05 minutes ended before a candidate was judged (validation took " in text
    assert " s of 3); give it more (--minutes 0.1)" in text
    assert "confirm the best" not in err
    assert "waiting for the baselines" not in err
