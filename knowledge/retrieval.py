"""Finding documents: by what their heads say, the same answer every time, no embeddings.

A document whose platform or language is another one is out. The rest scores

    4  its bottleneck is the one asked for (0 for ``any``: what always matters does not crowd out what matters now)
    2  its phase is the one asked for
    1  for ``any`` as its bottleneck, and 1 for ``any`` as its phase
    2  for each of its operators that the problem has, as a name or a word of one (``norm`` in ``native_layer_norm``);
       at most 6
   -3  it names operators and the problem has none of them: it is about something else

and is out if neither its bottleneck nor an operator of it is met, unless it names neither. Ties go by path. Rules
(``constraints/``) are not retrieved: they always hold, :func:`constraints` gives them.
"""

from collections.abc import Sequence

from ..schemas import Schema
from .documents import ANY, Document, corpus

RULES = "constraints/"
"""Folder of the documents that always hold."""


class Query(Schema, frozen=True, kw_only=True):
    """What is known of the situation. An empty field asks for nothing."""

    platform: str
    language: str
    bottleneck: str = ""
    phase: str = ""
    operators: tuple[str, ...] = ()
    """ATen operators of the problem."""


def retrieve(
    query: Query, *, documents: Sequence[Document] | None = None, limit: int = 5, characters: int = 16_000
) -> tuple[Document, ...]:
    """The best documents for ``query``, best first: at most ``limit``, together at most ``characters`` long."""
    pool = [d for d in (corpus() if documents is None else documents) if not d.path.startswith(RULES)]
    scored = [(score(document, query), document) for document in pool]
    ranked = sorted((item for item in scored if item[0] > 0), key=lambda item: (-item[0], item[1].path))
    chosen: list[Document] = []
    for _, document in ranked:
        if len(chosen) < limit and sum(len(d.text) for d in chosen) + len(document.text) <= characters:
            chosen.append(document)
    return tuple(chosen)


def constraints(platform: str, language: str, documents: Sequence[Document] | None = None) -> tuple[Document, ...]:
    """The rules that hold for every candidate on ``platform`` in ``language``, by path."""
    query = Query(platform=platform, language=language)
    pool = corpus() if documents is None else documents
    return tuple(d for d in pool if d.path.startswith(RULES) and _serves(d, query))


def score(document: Document, query: Query) -> int:
    """Points of a document, 0 if it is out (see the module's text)."""
    if not _serves(document, query):
        return 0
    bottleneck = query.bottleneck in document.bottleneck
    hits = len(set(document.operators) & _names(query.operators))
    if not bottleneck and not hits and (ANY not in document.bottleneck or document.operators):
        return 0
    elsewhere = bool(document.operators) and not hits
    points = 4 * bottleneck - 3 * elsewhere + 2 * (query.phase in document.phase) + min(2 * hits, 6)
    return points + (ANY in document.bottleneck) + (ANY in document.phase)


def _serves(document: Document, query: Query) -> bool:
    return bool({ANY, query.platform} & set(document.platform)) and bool({ANY, query.language} & set(document.language))


def _names(operators: Sequence[str]) -> set[str]:
    """``aten.native_layer_norm.default`` gives ``native_layer_norm``, ``native``, ``layer`` and ``norm``."""
    names = {operator.split(".")[1] if "." in operator else operator for operator in operators}
    return names | {word for name in names for word in name.split("_") if word}
