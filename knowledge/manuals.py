"""Manuals that users add to a pool: kept as sections in ``home/knowledge/POOL/NAME``, one Markdown file each.

A file that has the front matter of a knowledge document is kept as it is, signals included.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..schemas import InputError, Pool, Schema
from . import front_matter
from .documents import ANY, Document, parse
from .manual_files import KINDS, read_manual
from .retrieval import MANUALS
from .sections import Section

FOLDER = "knowledge"
"""Below the home folder."""

_SLUG = re.compile(r"[^a-z0-9]+")
_SLUG_CHARACTERS = 48


class AddedManual(Schema, frozen=True, kw_only=True):
    """What became of one file."""

    source: str
    """The file."""
    name: str
    """What its sections are kept under: the middle of ``manuals/NAME/…``."""
    sections: int
    characters: int
    replaced: bool
    """Whether a manual of that name was there before."""


def add_manuals(source: Path, pool: Pool, home: Path) -> tuple[AddedManual, ...]:
    """Take a file, or every Markdown, text and PDF file below a folder, into what is known of ``pool``.

    All files are read before anything is written; a manual of the same name is replaced as a whole. Files of other
    kinds are left out (:func:`other_files`).

    Raises:
        InputError: there is nothing to read, or a file cannot be used; the message names it and the way out.
    """
    root = source if source.is_dir() else source.parent
    files = list(_files(source))
    if not files:
        raise InputError(f"there is no manual in {source}: {', '.join(KINDS)} files are read")
    names: dict[str, Path] = {}
    for file in files:
        name = _slug(str(file.relative_to(root).with_suffix("")))
        if name in names:
            raise InputError(f"{file} and {names[name]} would both be kept as {name!r}: rename one of them")
        names[name] = file
    try:
        contents = {name: _content(file, pool) for name, file in names.items()}
    except InputError as error:
        if not source.is_dir():
            raise
        raise InputError(f"{error}; nothing of {source} was added: mend that file or take it out") from error
    return tuple(_keep(name, names[name], content, pool, home) for name, content in contents.items())


def other_files(source: Path) -> tuple[Path, ...]:
    """Files below the folder ``source`` that :func:`add_manuals` does not read, hidden ones aside; none of a file."""
    return tuple(path for path in _visible(source) if path.suffix.lower() not in KINDS) if source.is_dir() else ()


def remove_manual(name: str, pool: Pool, home: Path) -> None:
    """Forget the manual ``name`` of ``pool``.

    Raises:
        InputError: there is none; the message lists those there are.
    """
    names = manual_names(pool, home)
    if name not in names:
        raise InputError(f"pool {pool.name} has no manual {name!r}; there is {', '.join(names) or 'none'}")
    shutil.rmtree(home / FOLDER / pool.name / name)


def manual_names(pool: Pool, home: Path) -> tuple[str, ...]:
    """Names of the manuals of ``pool``, sorted."""
    root = home / FOLDER / pool.name
    return tuple(sorted(path.name for path in root.iterdir() if path.is_dir())) if root.is_dir() else ()


def manuals_of(pool: Pool, home: Path) -> tuple[Document, ...]:
    """Every section that was added to ``pool``, by path.

    Raises:
        InputError: a file there was changed by hand into what is no document; the message names it.
    """
    root = home / FOLDER / pool.name
    files = [file for name in manual_names(pool, home) for file in sorted((root / name).rglob("*.md"))]
    return tuple(
        _document(file, MANUALS + file.relative_to(root).as_posix(), pool.platform, file.stat().st_mtime_ns)
        for file in files
    )


@lru_cache(maxsize=10_000)
def _document(file: Path, path: str, platform: str, changed_ns: int) -> Document:
    """One section; kept until the file is changed, since every node of a session asks for all of them."""
    text = file.read_text(encoding="utf-8", errors="replace")
    # A file that was put there by hand may have no front matter: its first heading is its title.
    head, body = front_matter.split(text, str(file)) if text.startswith("---\n") else ({}, text)
    if "platform" in head:
        return parse(path, text)
    return Document(
        path=path,
        title=str(head.get("title") or text.partition("\n")[0].lstrip("# ")),
        platform=(platform,),
        language=(ANY,),
        sources=(str(head.get("source") or file.name),),
        text=body,
    )


def _files(source: Path) -> Iterator[Path]:
    if not source.exists():
        raise InputError(f"there is no file or folder {source}")
    if source.is_file():
        yield source
        return
    yield from (path for path in _visible(source) if path.suffix.lower() in KINDS)


def _visible(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield path


def _content(file: Path, pool: Pool) -> dict[str, str]:
    """What is kept of a manual: Markdown by file name."""
    own = _own_document(file, pool)
    if own:
        return {"document.md": own}
    return {
        f"{number:04}-{_slug(section.title.rpartition(' > ')[2])}.md": _section_text(section, file)
        for number, section in enumerate(read_manual(file), 1)
    }


def _own_document(file: Path, pool: Pool) -> str:
    """The text of a file that is a knowledge document already; empty if it is not."""
    if file.suffix.lower() != ".md":
        return ""
    text = file.read_text(encoding="utf-8", errors="replace")
    if not text.startswith("---\n") or "\nplatform:" not in text.partition("\n---\n")[0]:
        return ""
    document = parse(str(file), text)
    if not {ANY, pool.platform} & set(document.platform):
        platforms = ", ".join(document.platform)
        raise InputError(
            f"{file} is about {platforms}, and pool {pool.name} is {pool.platform}: it would never be read"
        )
    return text


def _section_text(section: Section, file: Path) -> str:
    source = f"{file.name}, from page {section.page}" if section.page else file.name
    return front_matter.join({"title": section.title, "source": source}, section.text)


def _keep(name: str, file: Path, content: dict[str, str], pool: Pool, home: Path) -> AddedManual:
    root = home / FOLDER / pool.name
    root.mkdir(parents=True, exist_ok=True)
    target = root / name
    replaced = target.exists()
    # Written beside it and moved at the end: a killed command leaves the old manual, not half of a new one.
    work = Path(tempfile.mkdtemp(prefix=".", dir=home / FOLDER))
    try:
        (work / "new").mkdir()
        for part, text in content.items():
            (work / "new" / part).write_text(text, encoding="utf-8")
        if replaced:
            target.replace(work / "old")
        (work / "new").replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    characters = sum(map(len, content.values()))
    return AddedManual(source=str(file), name=name, sections=len(content), characters=characters, replaced=replaced)


def _slug(text: str) -> str:
    return _SLUG.sub("-", text.lower()).strip("-")[:_SLUG_CHARACTERS].strip("-") or "manual"
