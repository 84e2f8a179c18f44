"""The command line inside this process, over a log that was written without a search."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from logged import write_session

from kernelswarm.cli.main import run


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


@pytest.fixture
def recorded(home: Path) -> Path:
    """A home whose log holds one closed session."""
    write_session(home)
    return home
