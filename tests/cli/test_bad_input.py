"""What cannot be used costs one clear sentence and exit status 2; the log stays as it was."""

import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import pytest_asyncio

import given
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import HardwareFacts, ProblemError, ProblemFacts
from kernelswarm.sessions import search_context
from kernelswarm.store import log_path

PROBLEM = Path(search_context.__file__).parent.parent / "problems" / "rmsnorm.py"
GOOD = """
import torch
shapes = {"main": dict(rows=8, cols=16)}
def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator)]
def reference(x):
    return x * 2 + 1
"""
FRESH = """
def fresh():
    generator = torch.Generator()
    generator.seed()
    return generator
"""
NOWHERE = "nats://127.0.0.1:9"


def sentence(err: str) -> str:
    """The one line on stderr that says what is wrong; earlier lines are progress."""
    assert "Traceback" not in err
    *_, last = err.strip().splitlines()
    assert last.startswith("error: ")
    return last


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["optimize", "nowhere.py"], "no file nowhere.py"),
        (["optimize", "{tmp}"], "is a folder"),
        (["optimize", "{tmp}/empty.py"], "lacks `reference`"),
        (["optimize", "{tmp}/torn.py"], "is not Python"),
        (["optimize", "{tmp}/binary.py"], "not UTF-8"),
        (["optimize", "{problem}", "--budget", "0"], "budget 0"),
        (["optimize", "{problem}", "--budget", "-3"], "budget -3"),
        (["optimize", "{problem}", "--minutes", "0"], "minutes 0"),
        (["optimize", "{problem}", "--minutes", "nan"], "minutes nan"),
        (["optimize", "{problem}", "--target", "-1"], "target -1"),
        (["optimize", "{problem}", "--target", "inf"], "target inf"),
        (["optimize", "{problem}", "--policy", "gready"], "unknown policy 'gready'"),
        (["optimize", "{problem}", "--against", "max_autotune"], "a win is measured against best, compile, eager"),
        (["evaluate", "{problem}", "{tmp}/empty.py", "--against", "all"], "against 'all'"),
        (
            ["optimize", "{problem}", "--measure", "wall"],
            "measure 'wall': did you mean 'call'? a win on an accelerator is by its device or",
        ),
        (["evaluate", "{problem}", "{tmp}/empty.py", "--measure", "wall"], "measure 'wall'"),
        (["optimize", "{problem}", "--synthesizer", "playbok"], "unknown author 'playbok'"),
        (["optimize", "{problem}", "--pool", "cpi"], "did you mean 'cpu'?"),
        (["optimize", "{problem}", "--no-workers"], "--no-workers needs --nats"),
        (["optimize", "{problem}", "--out", "{tmp}/empty.py"], "choose another folder with --out"),
        (["optimize", "{problem}", "--inject", "0.5"], "--inject 0.5 needs --seed-from"),
        (["log", "tail", "--kind", "nosuch"], "--kind 'nosuch' is in no tag of an event; there are author.benched"),
        (["optimize", "{problem}", "--seed-from", "RMSNORM-7KQ2x"], "did you mean 'rmsnorm-7kq2m'?"),
        (["optimize", "{problem}", "--seed-from", "auto,nosuch-1"], "there is no session 'nosuch-1'"),
        (["evaluate", "{problem}", "nowhere.py"], "nowhere.py does not exist"),
        (["evaluate", "{problem}", "{tmp}/binary.py"], "cannot be read as text"),
        (["evaluate", "{problem}", "{tmp}"], "is a folder; name the Python file in it"),
        (["optimize", "{problem}", "--nats", "nats://[x"], "'nats://[x' is not the URL of a NATS server"),
        (["knowledge", "show", "zzz", "--pool", "cpu"], "`kernelswarm knowledge list --pool cpu` names them"),
        (["compile", "{tmp}/empty.py"], "empty.py: it defines neither `kernel` nor `ModelNew`"),
        (["compile", "{tmp}/binary.py"], "give a Python file with kernel(...) or ModelNew"),
        (["optimize", "{problem}", "--pool", "{tmp}/mine.toml"], "pools/mine.toml, and name it --pool mine"),
        (["log", "import", "{tmp}/other.json"], "other.json is no log file: name one (`kernelswarm log path`)"),
        (["log", "import", "{tmp}/other.sqlite"], "other.sqlite is no log file: name one (`kernelswarm log path`)"),
        (["evaluate", "{problem}", "/dev/zero"], "is no plain file"),
        (["evaluate", "{problem}", "{tmp}/leans.py"], "imports empty.py: a candidate is one self-contained file"),
        (["evaluate", "/dev/zero", "{tmp}/empty.py"], "is no plain file"),
        (["evaluate", "{problem}", "{tmp}/huge.py"], "a candidate file may have"),
        (["optimize", "{problem}", "--seed", str(2**63)], f"seed {2**63}"),
        (["optimize", "{problem}", "--budget", str(2**63)], f"budget {2**63}"),
        (["sql", "SELECT '\udcff'"], "not UTF-8"),
        (["evaluate", "nowhere.py", "{tmp}/empty.py"], "no file nowhere.py"),
        (["swarm"], "swarm needs --nats"),
        (["swarm", "--nats", NOWHERE, "--roles", "compilor=1"], "unknown role 'compilor'"),
        (["swarm", "--nats", NOWHERE, "--roles", "compiler=many"], "'many' is not a number"),
        (["swarm", "--nats", NOWHERE, "--pool", "none"], "no pool is called 'none'"),
        (["record"], "record needs --nats"),
        (["record", "--nats", "http://127.0.0.1"], "is not the URL of a NATS server"),
        (["doctor", "--pool", "cpi"], "did you mean 'cpu'?"),
        (["show", "rmsnorm-7kq2x"], "did you mean 'rmsnorm-7kq2m'?"),
        (["show", "rmsnorm-7kq2m", "--node", "n0002"], "did you mean 'n002'?"),
        (["show", "rmsnorm-7kq2m", "--source", "--json"], "choose one"),
        (["show", "rmsnorm-7kq2m", "--file", "--json"], "choose one"),
        (["show", "rmsnorm-7kq2x", "--file"], "did you mean 'rmsnorm-7kq2m'?"),
        (["show", "rmsnorm-7kq2m", "--node", "n003", "--file"], "no correct candidate: there is no finished file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_seen_before_anything_runs(
    arguments: list[str], expected: str, recorded: Path, tmp_path: Path, kernelswarm: Callable[..., Any]
) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "torn.py").write_text("def reference(:\n")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "other.json").write_text("{")
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE events (a)")
    (tmp_path / "huge.py").write_text("x" * (1 << 23))
    (tmp_path / "leans.py").write_text("import empty\ndef kernel(x): return x")
    before = log_path(recorded).read_bytes()
    ran = kernelswarm(*(text.format(tmp=tmp_path, problem=PROBLEM) for text in arguments))
    assert expected in sentence(ran.err)
    assert ran.status == 2 and ran.out == ""
    assert log_path(recorded).read_bytes() == before


@pytest.mark.parametrize(
    "arguments", [["nosuch"], ["optimize"], ["optimize", "--budget", "few", "x.py"], ["sql", "-f", "xml", "x"]]
)
def test_what_the_grammar_refuses_names_the_help(arguments: list[str], kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm(*arguments)
    assert ran.status == 2 and ran.out == ""
    complaint, way_out = ran.err.strip().splitlines()
    assert complaint.startswith("error: ") and "--help" in way_out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["replay"], "kernelswarm replay needs SESSION: `kernelswarm sessions` lists them"),
        (["diff", "one"], "kernelswarm diff needs SESSION_B: `kernelswarm sessions` lists them"),
        (["lineage", "one"], "kernelswarm lineage needs NODE: `kernelswarm show SESSION` lists them"),
        (["optimize"], "kernelswarm optimize needs PROBLEM: a KernelBench file or a function file"),
        (["export", "-o", "x"], "kernelswarm export needs --format: choose one of sft, dpo, grpo, events, parquet"),
        (["export", "-f", "nosuch", "-o", "x"], "--format 'nosuch' is unknown: choose one of sft, dpo, grpo,"),
        (["sql", "-f", "jsn", "x"], "--format 'jsn' is unknown; did you mean 'json'? choose one of table, csv, json"),
        (["optimize", "--budget", "few", "x.py"], "--budget 'few': give a whole number"),
        (["sql", "-n", "0", "x"], "--limit '0': it must be greater than or equal to 1"),
        (["optimise"], "Did you mean 'optimize'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_the_grammar_refuses_is_said_in_our_words(
    arguments: list[str], expected: str, kernelswarm: Callable[..., Any]
) -> None:
    assert expected in sentence(kernelswarm(*arguments).err.rpartition("\n")[0].rpartition("\n")[0])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Device]:
    """One warm process for all of them: problem validation imports torch."""
    home = tmp_path_factory.mktemp("device")
    pool = find_pool("cpu", home)
    async with Device(pool, given.hardware(memory_bytes=4 << 30), home) as opened:
        yield opened


INVALID_PROBLEMS = {
    "does not import": (GOOD.replace("import torch", "import torch, no_such_module"), "no_such_module"),
    "returns nothing": (GOOD.replace("return x * 2 + 1", "x * 2 + 1"), "returns nothing"),
    "is not deterministic": (GOOD.replace("x * 2 + 1", "x + torch.rand_like(x)"), "not deterministic"),
    "counts its calls": (
        "calls = []" + GOOD.replace("return x", "calls.append(1)\n    return x * len(calls)"),
        "not deterministic",
    ),
    "draws from elsewhere": (GOOD.replace("generator=generator", "generator=fresh()") + FRESH, "not deterministic"),
    "needs a GPU": (GOOD.replace("generator=generator)", "generator=generator).cuda()"), "cuda"),
    "does not fit in memory": (GOOD.replace("rows=8", "rows=1 << 34"), "does not fit in memory"),
    "raises": (GOOD.replace("x * 2 + 1", "x @ x"), "mat1 and mat2"),
    "leaves": (GOOD.replace("return x * 2 + 1", "import os; os._exit(3)"), "ends its process"),
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("what", INVALID_PROBLEMS)
async def test_what_admission_finds(what: str, device: Device, tmp_path: Path) -> None:
    source, expected = INVALID_PROBLEMS[what]
    (tmp_path / "problem.py").write_text(source)
    with pytest.raises(ProblemError) as refused:
        await device.validate_problem(load_problem(tmp_path / "problem.py"))
    message = str(refused.value)
    assert expected in message and "problem.py" in message
    assert "\n" not in message and "Traceback" not in message


def test_a_problem_that_admission_refuses_ends_the_command_with_its_sentence(
    recorded: Path, tmp_path: Path, kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_context, "detect", lambda *_: given.hardware())
    (tmp_path / "empty_handed.py").write_text(INVALID_PROBLEMS["returns nothing"][0])
    before = log_path(recorded).read_bytes()
    ran = kernelswarm("optimize", tmp_path / "empty_handed.py")
    assert ran.status == 2 and ran.out == ""
    assert "empty_handed.py: the reference returns nothing" in sentence(ran.err)
    assert log_path(recorded).read_bytes() == before


def test_without_a_compiler(
    recorded: Path, kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    ran = kernelswarm("optimize", PROBLEM)
    assert ran.status == 2
    assert "no C++ compiler found" in sentence(ran.err) and "install" in ran.err


class Validating:
    """A device that has validated the problem already: what these tests are about comes after."""

    def __init__(self, *_: object, **__: object) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def prepare_profilers(self) -> None: ...

    async def validate_problem(self, _: object) -> ProblemFacts:
        return given.facts()


@pytest.fixture
def validated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_context, "Device", Validating)
    monkeypatch.setattr(search_context, "detect", lambda *_: given.hardware())


@pytest.mark.usefixtures("validated")
def test_a_server_that_cannot_be_reached(
    recorded: Path, kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelswarm.bus.link.CONNECT_SECONDS", 0.5)
    before = log_path(recorded).read_bytes()
    ran = kernelswarm("optimize", PROBLEM, "--nats", NOWHERE)
    assert ran.status == 2 and "127.0.0.1:9" in sentence(ran.err)
    assert log_path(recorded).read_bytes() == before


@pytest.mark.usefixtures("validated")
def test_a_full_disk_before_the_search(
    recorded: Path, kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage(recorded)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    before = log_path(recorded).read_bytes()
    ran = kernelswarm("optimize", PROBLEM)
    assert ran.status == 2 and "is full" in sentence(ran.err) and "KERNELSWARM_HOME" in ran.err
    assert log_path(recorded).read_bytes() == before


def test_a_disk_that_fills_up_wherever_it_is_noticed(
    home: Path, kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> HardwareFacts:
        raise OSError(28, "No space left on device", str(home / "pools"))

    monkeypatch.setattr(search_context, "detect", full)
    ran = kernelswarm("optimize", PROBLEM)
    assert ran.status == 2
    assert sentence(ran.err).startswith(f"error: {home / 'pools'}: No space left on device")


def test_a_home_that_cannot_be_made(
    tmp_path: Path, kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNELSWARM_HOME", str(tmp_path / "file" / "home"))
    ran = kernelswarm("sessions")
    assert ran.status == 2 and "set KERNELSWARM_HOME" in sentence(ran.err)


def test_a_log_that_is_none(home: Path, kernelswarm: Callable[..., Any]) -> None:
    home.mkdir()
    log_path(home).write_bytes(os.urandom(5000))
    ran = kernelswarm("sessions")
    assert ran.status == 2 and "not a log of kernelswarm" in sentence(ran.err)


@pytest.mark.parametrize("group", ["log", "bench"])
def test_a_group_named_alone_shows_its_help_and_complains_of_nothing(
    group: str, kernelswarm: Callable[..., Any]
) -> None:
    ran = kernelswarm(group)
    assert ran.status == 2 and "Commands" in ran.out and ran.err == ""
