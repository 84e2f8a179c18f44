"""The corpus: short documents about making kernels fast and right, each with a front matter that retrieval goes by."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from ..schemas import Bottleneck, InputError, Intent, Schema, Verdict
from . import front_matter

ANY = "any"
"""In a front matter: matters everywhere."""

OVERVIEW, DETAIL = "overview", "detail"

_VOCABULARY = {
    "bottleneck": frozenset(Bottleneck),
    "phase": frozenset(Intent),
    "failure": frozenset(Verdict) - {Verdict.correct},
    "level": frozenset((OVERVIEW, DETAIL)),
}
_NEEDED = ("platform", "language", "bottleneck", "phase")
_OPTIONAL = ("operators", "chip", "failure", "keywords", "sources")
_FIELDS = frozenset(("title", "level", *_NEEDED, *_OPTIONAL))
_CHIP = re.compile(r"[a-z0-9_]+")


class Document(Schema, frozen=True, kw_only=True):
    """One document."""

    path: str
    """Below the corpus: ``hardware/cpu/openmp.md``; ``manuals/NAME/…`` for what a user added to a pool."""
    title: str
    platform: tuple[str, ...]
    """Platforms it speaks of; ``any`` for all."""
    language: tuple[str, ...]
    """Languages of the native code it speaks of; ``any`` for all."""
    bottleneck: tuple[str, ...] = ()
    """Bottlenecks it helps with, as :class:`Bottleneck` spells them; ``any`` for all; empty: only words lead to it."""
    phase: tuple[str, ...] = ()
    """Intents it is for: ``draft``, ``improve``, ``repair``; ``any`` for all; empty as above."""
    operators: tuple[str, ...] = ()
    """Fragments of ATen operators' names it is about: ``softmax``, ``mean``."""
    chip: tuple[str, ...] = ()
    """Chips or instruction sets it is true of (``sm_90``, ``gfx942``, ``avx512f``): out where the pool has none of
    them. Empty: every chip of its platforms."""
    failure: tuple[str, ...] = ()
    """Verdicts it helps to repair, as :class:`Verdict` spells them."""
    level: str = DETAIL
    """``overview``: read first, names the details. ``detail``: one technique."""
    keywords: tuple[str, ...] = ()
    """Words that a reader would search it by and that its title lacks."""
    sources: tuple[str, ...] = ()
    """Where its facts can be checked: paper, section of a vendor's guide, page of a library's documentation."""
    text: str = ""
    """Markdown without the front matter."""


@cache
def corpus() -> tuple[Document, ...]:
    """Every document that ships, sorted by path; the index is not one of them.

    Raises:
        InputError: a document's front matter is wrong (a defect of the package; the message names it).
    """
    root = files(__package__).joinpath("corpus")
    entries = sorted(_walk(root, ""))
    return tuple(parse(path, text) for path, text in entries if path != "index.md")


def parse(path: str, text: str) -> Document:
    """A document from its text.

    Raises:
        InputError: the front matter lacks a field or has a word that means nothing.
    """
    head, body = front_matter.split(text, path)
    title = head.get("title")
    if not isinstance(title, str):
        raise InputError(f"{path} lacks a title in its front matter")
    unknown = sorted(set(head) - _FIELDS)
    if unknown:
        raise InputError(f"{path} has the unknown field {unknown[0]!r} in its front matter")
    needed = {field: _words(path, head, field) for field in _NEEDED}
    optional = {field: _words(path, head, field) for field in _OPTIONAL if field in head}
    if wrong := [chip for chip in optional.get("chip", ()) if not _CHIP.fullmatch(chip)]:
        raise InputError(f"{path}: {wrong[0]!r} is no chip; write it as pools and compilers do: sm_90, gfx942, avx512f")
    level = _words(path, head, "level")[0] if "level" in head else DETAIL
    return Document(path=path, title=title, level=level, text=body, **needed, **optional)


def _words(path: str, head: front_matter.Head, field: str) -> tuple[str, ...]:
    value = head.get(field)
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise InputError(f"{path} needs {field!r} in its front matter: a word or a list of words, `any` for all")
    vocabulary = _VOCABULARY.get(field)
    for word in words:
        if vocabulary is not None and word not in vocabulary and word != ANY:
            raise InputError(f"{path}: {word!r} is no {field}; there is {', '.join(sorted(vocabulary))} and {ANY}")
    return tuple(words)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".md"):
            yield f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")
