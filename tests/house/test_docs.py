"""Files that the documentation names are there: who moves one finds the pages that speak of it."""

import re
from pathlib import Path

import pytest

import kernelswarm

ROOT = Path(kernelswarm.__file__).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "tests").rglob("README.md"))]
NAMED = re.compile(r"`((?:\w+/)*\w+\.(?:py|cpp|sql|toml))`")
OF_USERS = {"best.py", "torch.py", "blocks/gates.py", "kernelswarm.sql"}
"""Files in examples."""
FOLDERS = ("", "hardware", "hardware/harness", "benchmarks", "tests", "store", "agents", "agents/planner", "knowledge")
"""Where a page may stand in its thoughts."""


@pytest.fixture(scope="module")
def files() -> set[str]:
    """Names of the project's own files."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return {path.name for folder in folders for path in folder.rglob("*.*")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_files_that_are_there(page: Path, files: set[str]) -> None:
    missing = [
        name
        for name in NAMED.findall(page.read_text(encoding="utf-8"))
        if name not in OF_USERS and not any(part.isupper() for part in re.split(r"[/.]", name))
        if not any((ROOT / folder / name).exists() for folder in FOLDERS)
        if "/" in name or name not in files
    ]
    assert not missing
