"""The corpus: short documents about making kernels fast and right, each with a head that retrieval looks at."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from ..schemas import Bottleneck, InputError, Intent, Schema
from . import front_matter

ANY = "any"
"""In a head: matters everywhere."""

_VOCABULARY = {
    "bottleneck": frozenset(Bottleneck),
    "phase": frozenset(Intent),
}


class Document(Schema, frozen=True, kw_only=True):
    """One document."""

    path: str
    """Below the corpus: ``hardware/cpu/openmp.md``."""
    title: str
    platform: tuple[str, ...]
    """Platforms it speaks of; ``any`` for all."""
    language: tuple[str, ...]
    """Languages of the native code it speaks of; ``any`` for all."""
    bottleneck: tuple[str, ...]
    """Bottlenecks it helps with, as :class:`Bottleneck` spells them; ``any`` for all."""
    phase: tuple[str, ...]
    """Intents it is for: ``draft``, ``improve``, ``repair``; ``any`` for all."""
    operators: tuple[str, ...] = ()
    """Fragments of ATen operators' names it is about: ``softmax``, ``mean``."""
    text: str = ""
    """Markdown without the head."""


@cache
def corpus() -> tuple[Document, ...]:
    """Every document that ships, sorted by path; the index is not one of them.

    Raises:
        InputError: a document's head is wrong (a defect of the package; the message names it).
    """
    root = files(__package__).joinpath("corpus")
    entries = sorted(_walk(root, ""))
    return tuple(parse(path, text) for path, text in entries if path != "index.md")


def parse(path: str, text: str) -> Document:
    """A document from its text.

    Raises:
        InputError: the head lacks a field or has a word that means nothing.
    """
    head, body = front_matter.split(text, path)
    title = head.get("title")
    if not isinstance(title, str):
        raise InputError(f"{path} lacks a title in its front matter")
    unknown = sorted(set(head) - {"title", "platform", "language", "bottleneck", "phase", "operators"})
    if unknown:
        raise InputError(f"{path} has the unknown field {unknown[0]!r} in its front matter")
    return Document(
        path=path,
        title=title,
        platform=_words(path, head, "platform"),
        language=_words(path, head, "language"),
        bottleneck=_words(path, head, "bottleneck"),
        phase=_words(path, head, "phase"),
        operators=_words(path, head, "operators") if "operators" in head else (),
        text=body,
    )


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
