"""Files and sections that the documentation names are there: who moves one finds the pages that speak of it."""

import re
from pathlib import Path

import pytest

import kernelswarm

ROOT = Path(kernelswarm.__file__).parent
HISTORY = [ROOT / "CHANGELOG.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
"""Pages that may speak of files that are gone."""
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page not in HISTORY),
    *sorted((ROOT / "tests").rglob("README.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.M | re.S)
NAMED = re.compile(r"`((?:\w+/)*\w+\.(?:py|cpp|sql|toml))`")
GENERATED = {"cpp-math.md", "sql.md", "results.md"}
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


@pytest.mark.parametrize("page", [*PAGES, *HISTORY], ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_has_short_lines(page: Path) -> None:
    if page.name in GENERATED:
        return
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "    ")) and "`" not in line]
    assert not [line for line in lines if len(line) > 100]


def anchors(page: Path) -> set[str]:
    """What GitHub calls the sections of a page."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    words = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in words}


@pytest.mark.parametrize("page", [*PAGES, *HISTORY], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_to_a_page_and_a_section_that_are_there(page: Path) -> None:
    broken = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if "://" in link or path.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken
