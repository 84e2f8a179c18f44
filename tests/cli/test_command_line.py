"""The program as a whole: help, completion, exit statuses, signals."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import again_until

from kernelswarm.cli.commands import doctor
from kernelswarm.cli.completion import python_files
from kernelswarm.cli.main import COMMANDS as SUMMARIES
from kernelswarm.cli.main import app, command, plain, run
from kernelswarm.hardware.doctor import Check, Status
from kernelswarm.schemas import BusError, HarnessError, InputError
from kernelswarm.sessions.interrupts import Interrupts, run_interruptible
from kernelswarm.store import run_sql

COMMANDS = (
    *(
        "optimize",
        "evaluate",
        "time",
        "compile",
        "swarm",
        "record",
        "mcp",
        "models",
        "pools",
        "doctor",
        "sessions",
        "show",
        "sql",
    ),
    *("fork", "replay", "resume", "diff", "lineage", "export"),
)
GROUPS = ("log", "bench", "knowledge", "tasks")
HEAVY = {"torch", "triton", "duckdb", "numpy", "nats", "yaml", "bm25s", "anthropic", "openai", "mcp"}
"""Libraries that take longer to import than a short command takes."""


def program(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernelswarm.cli", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "KERNELSWARM_HOME": str(home), **environment},
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(command: str, kernelswarm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ran = kernelswarm(command, "--help")
    assert ran.status == 0
    usage, examples = ran.out.split("Examples")
    assert "Usage: kernelswarm " + command in usage and f"kernelswarm {command}" in examples


def test_without_arguments_there_is_help(kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm()
    assert ran.status == 0 and all(command in ran.out for command in COMMANDS)


def test_every_command_is_listed_here() -> None:
    assert {command.name for command in app.registered_commands} == {*COMMANDS, *GROUPS}


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_of_commands_says_of_each_what_its_own_help_says_first(name: str) -> None:
    assert command(name).help.partition("\n\n")[0].replace("\n", " ") == SUMMARIES[name]


def loaded(*arguments: str, home: Path) -> set[str]:
    """Modules that a short command imports."""
    code = (
        "import sys; from kernelswarm.cli.main import run; status = run(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "KERNELSWARM_HOME": str(home)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_the_list_of_commands_imports_none_of_them(home: Path) -> None:
    modules = loaded("--help", home=home)
    assert not [name for name in modules if name.startswith("kernelswarm.cli.commands.")]
    assert not modules & HEAVY


@pytest.mark.parametrize("name", ["sql", "sessions", "show", "pools", "lineage", "diff", "export", "log"])
def test_help_of_a_short_command_imports_no_heavy_library(name: str, home: Path) -> None:
    assert not loaded(name, "--help", home=home) & HEAVY


def test_a_query_to_a_file_imports_duckdb_alone_of_the_heavy_libraries(recorded: Path) -> None:
    assert loaded("sql", "SELECT session FROM sessions", home=recorded) & HEAVY == {"duckdb"}


def test_version(kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("--version")
    assert ran.status == 0 and ran.out.startswith("kernelswarm ")


def test_python_runs_it_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kernelswarm", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stdout.split()[:1], ran.stderr) == (0, ["kernelswarm"], "")


def complete(line: str, home: Path) -> list[str]:
    words = line.split(" ")
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_KERNELSWARM_COMPLETE": "complete_bash"}
    return program(home=home, **environment).stdout.split()


def test_the_shell_completes_commands_sessions_and_pools(recorded: Path) -> None:
    assert "optimize" in complete("kernelswarm opt", recorded)
    # A shell does not wait for long: on a busy machine it is offered nothing.
    assert again_until(["rmsnorm-7kq2m"], lambda: complete("kernelswarm show rms", recorded)) == ["rmsnorm-7kq2m"]
    assert "cpu" in complete("kernelswarm optimize --pool c", recorded)
    assert "tried_on_operator" in complete("kernelswarm sql --question tried", recorded)


def test_the_completion_script_calls_the_program(home: Path) -> None:
    script = program("--show-completion", "bash", home=home, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").stdout
    assert "_KERNELSWARM_COMPLETE=complete_bash" in script


def test_completion_offers_python_files_and_leaves_folders_to_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "problems").mkdir()
    for name in ("problems/mapid.py", "problems/notes.md", "model.py"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert python_files("problems/m") == ["problems/mapid.py"]
    assert python_files("pro") == []
    assert python_files("") == ["model.py", "problems/"]
    assert python_files("nowhere/") == []


def test_errors_are_found_inside_the_groups_of_concurrent_tasks() -> None:
    mistake = InputError("a mistake")
    group = ExceptionGroup("tasks", [RuntimeError("x"), ExceptionGroup("more", [mistake, ValueError("y")])])
    assert plain(group) is mistake
    assert isinstance(plain(BaseExceptionGroup("tasks", [ValueError(), KeyboardInterrupt()])), KeyboardInterrupt)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("a"), 2),
        (BusError("b"), 2),
        (HarnessError("c"), 1),
        (ExceptionGroup("tasks", [BusError("d")]), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_statuses(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, kernelswarm: Callable[..., Any]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("kernelswarm.cli.commands.doctor.examine", fail)
    ran = kernelswarm("doctor", "--json")
    assert ran.status == status and ran.out == ""
    assert ran.err.startswith("interrupted" if status == 130 else "error: ")


def test_what_is_our_own_fault_is_not_hidden(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("kernelswarm.cli.commands.doctor.examine", fail)
    with pytest.raises(ZeroDivisionError):
        run(["doctor"])


@pytest.mark.parametrize(("status", "code"), [(Status.ok, 0), (Status.warn, 0), (Status.fail, 1)])
def test_doctor_fails_only_if_no_search_would_run(
    status: Status, code: int, monkeypatch: pytest.MonkeyPatch, kernelswarm: Callable[..., Any]
) -> None:
    checks = [Check("python", Status.ok, "3.11"), Check("compiler", status, "[none]", "`apt-get install g++`")]
    monkeypatch.setattr(doctor, "examine", lambda *_: checks)
    ran = kernelswarm("doctor")
    assert ran.status == code and "[none]" in ran.out and "apt-get install g++" in ran.out
    assert ("not ready" in ran.out) is (code == 1)


def test_a_reader_that_leaves_changes_nothing(recorded: Path) -> None:
    command = (
        f"{sys.executable} -m kernelswarm.cli sql 'SELECT * FROM range(100000)' | head -1; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        env={**os.environ, "KERNELSWARM_HOME": str(recorded)},
        check=True,
    )
    assert done.stdout.split() == ["range", "0"] and "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_where_nobody_ends_politely(number: signal.Signals) -> None:
    cleaned = []

    async def work(_: Interrupts) -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work)
    assert cleaned and signal.getsignal(number) is before


def test_the_first_signal_asks_and_the_second_insists() -> None:
    requests = []

    async def work(interrupts: Interrupts) -> None:
        def polite() -> None:
            requests.append(True)
            os.kill(os.getpid(), signal.SIGINT)

        with interrupts.politely(polite):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work)
    assert requests == [True]


def test_a_polite_end_is_an_ordinary_one() -> None:
    async def work(interrupts: Interrupts) -> str:
        stopped = asyncio.Event()
        with interrupts.politely(stopped.set):
            os.kill(os.getpid(), signal.SIGINT)
            await stopped.wait()
        return "done"

    assert run_interruptible(work) == "done"


def test_patience_ends() -> None:
    async def work(interrupts: Interrupts) -> None:
        with interrupts.politely(lambda: None, patience_s=0.01):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work)


def test_an_error_on_the_way_out_does_not_hide_the_interruption() -> None:
    async def work(_: Interrupts) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            raise BusError("the server went first")

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(work)


async def test_an_interrupted_search_is_closed_and_leaves_nobody_behind(home: Path, tmp_path: Path) -> None:
    """The whole process group gets the signal, as from a terminal."""
    (tmp_path / "problem.py").write_text(
        "import torch\nshapes = {'main': dict(n=64)}\n"
        "def inputs(generator, n):\n    return [torch.randn(n, n, generator=generator)]\n"
        "def reference(x):\n    return x * 2 + 1\n"
    )
    (tmp_path / "kernel.py").write_text("def kernel(x):\n    return x * 2 + 1\n")
    search = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kernelswarm.cli", "evaluate", "problem.py", "kernel.py", "--nats", ""),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert search.stderr is not None and search.stdout is not None
    lines = [line async for line in _until(search.stderr, b"session ")]
    os.killpg(search.pid, signal.SIGINT)
    rest = await search.stderr.read()
    assert await search.wait() == 130, lines
    assert rest.strip().endswith(b"interrupted") and b"Traceback" not in rest
    assert await search.stdout.read() == b""
    table = await run_sql(home, "SELECT status, reason FROM sessions")
    assert table.rows == (("closed", "interrupted"),)
    assert living(search.pid) == []


def living(session: int) -> list[str]:
    """Processes of a login session that do more than wait to be forgotten."""
    names = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended while we looked
            name, _, fields = path.read_text().rpartition(")")
            state, _, _, of_session, *_ = fields.split()
            if int(of_session) == session and state not in "ZX":
                names.append(name)
    return names


async def _until(stream: asyncio.StreamReader, start: bytes) -> Any:
    while line := await stream.readline():
        yield line
        if line.startswith(start):
            return
