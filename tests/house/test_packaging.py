"""The wheel holds the package and its data, and nothing that is only for building or testing it."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import kernelswarm

ROOT = Path(kernelswarm.__file__).parent


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Files of a wheel built from a copy, so that no build folder is left in the tree."""
    work = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, work / "source", ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(work), "."]
    subprocess.run(command, cwd=work / "source", check=True, capture_output=True, text=True)
    (wheel,) = work.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize(
    "name",
    [
        "kernelswarm/__init__.py",
        "kernelswarm/py.typed",
        "kernelswarm/schemas/events/session.py",
        "kernelswarm/agents/planner/policies/greedy.py",
        "kernelswarm/cli/main.py",
    ],
)
def test_the_wheel_holds_the_package(names: set[str], name: str) -> None:
    assert name in names


@pytest.mark.parametrize(
    "pattern",
    [
        "hardware/pools/*.toml",
        "knowledge/corpus/**/*.md",
        "sessions/outside/*.md",
        "store/**/*.sql",
        "hardware/*/*.cpp",
    ],
)
def test_the_wheel_holds_every_data_file(names: set[str], pattern: str) -> None:
    files = {f"kernelswarm/{path.relative_to(ROOT)}" for path in ROOT.glob(pattern)}
    assert files and files <= names


def test_the_wheel_holds_every_module(names: set[str]) -> None:
    folders = ("schemas", "bus", "store", "hardware", "knowledge", "agents", "api", "cli", "problems")
    files = {f"kernelswarm/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.py")}
    assert files <= names


@pytest.mark.parametrize("part", ["setup.py", "/tests/", "/benchmarks/", "conftest.py"])
def test_the_wheel_holds_nothing_else(names: set[str], part: str) -> None:
    assert not [name for name in names if part in f"/{name}"]
