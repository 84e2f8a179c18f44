"""The command line inside this process, over a log that was written without a search."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from logged import write_session

from kernelswarm.cli.main import run
from kernelswarm.store import log_path


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of its own."""
    monkeypatch.setenv("KERNELSWARM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KERNELSWARM_NATS", raising=False)
    return tmp_path / "home"


@pytest.fixture
def kernelswarm(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command line as the program would."""

    def call(*arguments: str) -> Ran:
        status = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def log_of_a_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that holds one closed session: to copy, because to write one takes longer."""
    home = tmp_path_factory.mktemp("recorded")
    write_session(home)
    return log_path(home)


@pytest.fixture
def recorded(home: Path, log_of_a_session: Path) -> Path:
    """A home whose log holds one closed session."""
    home.mkdir()
    shutil.copy(log_of_a_session, log_path(home))
    return home
