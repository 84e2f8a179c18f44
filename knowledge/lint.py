"""What a knowledge document must be to be retrieved and believed."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..schemas import InputError, Schema
from .documents import ANY, Document, corpus, parse
from .retrieval import RULES, passages

FEWEST_CHARACTERS, MOST_CHARACTERS = 300, 7_000
MOST_COLUMNS = 120

_CHIPS = {"nvidia": re.compile(r"sm_\d{2,3}[af]?"), "amd": re.compile(r"gfx[0-9a-f]{3,4}")}
_PLATFORMS = ("cpu", "nvidia", "amd")
_URL = re.compile(r"https?://|/(?:home|tmp|usr)/")


class Problem(Schema, frozen=True, kw_only=True):
    """One thing wrong with one document."""

    path: str
    message: str


def lint(folder: Path | None = None) -> tuple[int, tuple[Problem, ...]]:
    """How many documents were read (below ``folder``, or those that ship), and what is wrong with them.

    Raises:
        InputError: there is no such folder, or nothing in it.
    """
    if folder is None:
        return len(corpus()), tuple(problems(corpus()))
    files = sorted(folder.rglob("*.md")) if folder.is_dir() else [folder]
    files = [file for file in files if file.name != "index.md"]
    if not folder.exists() or not files:
        raise InputError(f"there are no Markdown documents in {folder}")
    documents, wrong = [], []
    for file in files:
        path = file.relative_to(folder).as_posix() if folder.is_dir() else file.name
        try:
            documents.append(parse(path, file.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            wrong.append(Problem(path=path, message="it is not UTF-8"))
        except InputError as error:
            wrong.append(Problem(path=path, message=str(error)))
    return len(files), (*wrong, *problems(documents))


def problems(documents: Iterable[Document]) -> Iterator[Problem]:
    """What is wrong with documents whose front matter could be read."""
    titles: dict[str, str] = {}
    for document in documents:
        for message in _messages(document):
            yield Problem(path=document.path, message=message)
        if document.title in titles:
            yield Problem(path=document.path, message=f"has the title of {titles[document.title]}")
        titles[document.title] = document.path


def _messages(document: Document) -> Iterator[str]:
    size = len(document.text)
    if not FEWEST_CHARACTERS <= size <= MOST_CHARACTERS:
        yield f"has {size} characters: {FEWEST_CHARACTERS} to {MOST_CHARACTERS} fit a prompt; split it"
    for number, line in enumerate(document.text.splitlines(), 1):
        if len(line) > MOST_COLUMNS and not line.startswith("|"):
            yield f"line {number} of its text has {len(line)} characters: at most {MOST_COLUMNS}"
        if _URL.search(line):
            yield f"line {number} of its text names an address or a path: sources go into the front matter"
    if not document.sources and not document.path.startswith(RULES):
        yield "names no sources: where can its facts be checked?"
    marked = passages(document)
    if not document.text.count("<!-- only ") == document.text.count("<!-- end -->") == len(marked):
        yield "marks passages wrongly: `<!-- only nvidia -->` and `<!-- end -->` stand in pairs, each alone on its line"
    for name in (name for names in marked for name in names):
        if name in _PLATFORMS and not {name, ANY} & set(document.platform):
            yield f"has a passage for {name}, and is about {', '.join(document.platform)}"
    for chip in document.chip:
        patterns = [_CHIPS[platform] for platform in document.platform if platform in _CHIPS]
        if patterns and not any(pattern.fullmatch(chip) for pattern in patterns):
            yield f"{chip!r} is no chip of {', '.join(document.platform)}: write sm_90, gfx942"
        if ANY in document.platform:
            yield f"names the chip {chip!r} and no platform"
