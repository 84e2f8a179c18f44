"""Finding documents: by their front matter first, then by their words. No embeddings, the same answer every time.

A document of another platform, another language or another chip is out. The rest scores

    4  its bottleneck is the one asked for (0 for ``any``: what always matters does not crowd out what matters now)
    4  it helps to repair the failure asked for
    2  its phase is the one asked for
    1  for ``any`` as its bottleneck, and 1 for ``any`` as its phase
    2  for each of its operators that the problem has, as a name or a word of one (``norm`` in ``native_layer_norm``);
       1 for those that nearly every problem has (``add``); at most 6
    1  it names a chip, and the pool has it; not for a question in words alone
    3  it is a manual that the user gave to this pool, and has two telling words of the query, or the only one
   -3  it names operators and the problem has none of them: it is about something else
   -2  it names diagnoses, and not the one asked for; the same for failures, and for phases
 0..6  its words: its BM25 score, relative to the best one's, or to :data:`STRONG_TEXT` if that is more

and is out if neither bottleneck, failure, operator nor at least a third of the best one's words is met. What names none
of the three (what always matters) comes back where a situation is given, not for a question in words alone. Ties go by
path. The best are returned from overview to detail: an overview that has at least half of the best one's points comes
first. Rules (``constraints/``) are not
retrieved: they always hold, :func:`constraints` gives them.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ..schemas import KnowledgeQuery, RetrievedDocument, Schema, sha256
from .documents import ANY, OVERVIEW, Document, corpus
from .text_index import distinct_words, text_index

RULES = "constraints/"
"""Folder of the documents that always hold."""
MANUALS = "manuals/"
"""Beginning of the paths of what users added to a pool."""
WORTH_READING = 0.2
"""Share of the best one's points below which a document is left out, though there is room for it."""
TEXT_POINTS = 6.0
"""Most that words are worth."""
STRONG_TEXT = 8.0
"""BM25 score from which the best document gets all of :data:`TEXT_POINTS`: few words that match prove little."""
COMMON = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "sum",
        "mean",
        "exp",
        "sqrt",
        "where",
        "neg",
        "clamp",
        "copy",
        "clone",
        "view",
        "to",
        "max",
        "min",
        "any",
    ]
)
"""Operators that tell little."""
ENOUGH_TEXT = 1 / 3
"""Share of the best document's text score from which words alone are a reason."""
MANUAL_WORDS = 2
"""Words of a query beside :data:`COMMON` that a manual must have for its points: one may stand in any text."""
MOST_NAMED_WORDS = 4
_PASSAGE = re.compile(r"^<!-- only ([a-z0-9_ ]+) -->\n(.*?)^<!-- end -->\n?", re.MULTILINE | re.DOTALL)
_EMPTY_LINES = re.compile(r"\n{3,}")

Query = KnowledgeQuery


class Hit(Schema, frozen=True, kw_only=True):
    """A document that matches, its points and what they are for."""

    document: Document
    score: float
    reasons: tuple[str, ...]

    def record(self, *, with_text: bool = True) -> RetrievedDocument:
        """The same as an event holds it."""
        document = self.document
        return RetrievedDocument(
            path=document.path,
            title=document.title,
            level=document.level,
            score=self.score,
            reasons=self.reasons,
            sha256=sha256(document.text),
            text=document.text if with_text else "",
        )


def search(query: Query, *, documents: Sequence[Document] | None = None, limit: int = 5) -> tuple[Hit, ...]:
    """The best ``limit`` documents for ``query``, overviews that matter first; see the module's text."""
    documents = sorted(corpus() if documents is None else documents, key=lambda document: document.path)
    serving = tuple(document for document in fitting(documents, query) if not document.path.startswith(RULES))
    hits = [hit for hit in _hits(serving, query) if hit is not None]
    ranked = sorted(hits, key=lambda hit: (-hit.score, hit.document.path))
    best = [hit for hit in ranked[:limit] if hit.score >= WORTH_READING * ranked[0].score]
    return tuple(sorted(best, key=lambda hit: hit.document.level != OVERVIEW or hit.score < best[0].score / 2))


def retrieve(
    query: Query, *, documents: Sequence[Document] | None = None, limit: int = 5, characters: int = 24_000
) -> tuple[Document, ...]:
    """The documents of :func:`search`, together at most ``characters`` long; what does not fit is left out."""
    chosen: list[Document] = []
    for hit in search(query, documents=documents, limit=limit):
        if sum(len(document.text) for document in chosen) + len(hit.document.text) <= characters:
            chosen.append(hit.document)
    return tuple(chosen)


def constraints(platform: str, language: str, documents: Sequence[Document] | None = None) -> tuple[Document, ...]:
    """The rules that hold for every candidate on ``platform`` in ``language``, by path."""
    query = Query(platform=platform, language=language)
    documents = corpus() if documents is None else documents
    return tuple(document for document in fitting(documents, query) if document.path.startswith(RULES))


def fitting(documents: Iterable[Document], query: Query) -> tuple[Document, ...]:
    """The documents that serve ``query``, without their passages about other platforms and chips."""
    return tuple(_without_other_passages(document, query) for document in documents if serves(document, query))


def passages(document: Document) -> tuple[tuple[str, ...], ...]:
    """Of each passage of its own that ``document`` has for platforms or chips their names, as ``<!-- only nvidia -->``
    spells them."""
    return tuple(tuple(match[1].split()) for match in _PASSAGE.finditer(document.text))


def _without_other_passages(document: Document, query: Query) -> Document:
    if "<!-- only" not in document.text:
        return document
    here = {query.platform, *_chips(query.chips)}
    text = _PASSAGE.sub(lambda match: match[2] if here & set(match[1].split()) else "", document.text)
    return replace(document, text=_EMPTY_LINES.sub("\n\n", text))


def serves(document: Document, query: Query) -> bool:
    """Whether a document is about the query's platform, language and chip."""
    if not {ANY, query.platform} & set(document.platform):
        return False
    if query.language and not {ANY, query.language} & set(document.language):
        return False
    return not document.chip or bool(_chips(document.chip) & _chips(query.chips))


def score(document: Document, query: Query) -> int:
    """Points for the front matter alone, 0 if the document is out (see the module's text)."""
    if not serves(document, query):
        return 0
    points = _signals(document, query)
    return sum(points.values()) if _relevant(document, query, points) else 0


def _hits(serving: tuple[Document, ...], query: Query) -> list[Hit | None]:
    matches = text_index(serving).scores(query.text) if query.text else [{} for _ in serving]
    totals = [sum(match.values()) for match in matches]
    most = max(totals, default=0.0)
    fewest = min(MANUAL_WORDS, len(set(distinct_words(query.text).values()) - COMMON))
    return [_hit(document, query, match, most, fewest) for document, match in zip(serving, matches, strict=True)]


def _hit(document: Document, query: Query, match: dict[str, float], most: float, fewest: int) -> Hit | None:
    points: dict[str, float] = dict(_signals(document, query))
    total = sum(match.values())
    enough = total > 0 and total >= ENOUGH_TEXT * most
    if not enough and not _relevant(document, query, points):
        return None
    if match:
        named = sorted(match, key=lambda word: (-match[word], word))[:MOST_NAMED_WORDS]
        points[f"words {', '.join(named)}"] = round(TEXT_POINTS * total / max(most, STRONG_TEXT), 2)
        if document.path.startswith(MANUALS) and len(match.keys() - COMMON) >= fewest:
            points[f"manual of pool {query.pool}"] = 3
    score = round(sum(points.values()), 2)
    return Hit(document=document, score=score, reasons=tuple(points)) if score > 0 else None


def _signals(document: Document, query: Query) -> dict[str, int]:
    """Points by reason."""
    hits = sorted(set(document.operators) & _names(query.operators))
    chips = sorted(_chips(document.chip) & _chips(query.chips))
    situation = _is_situation(query)
    elsewhere = query.bottleneck and document.bottleneck and not {ANY, query.bottleneck} & set(document.bottleneck)
    another_phase = query.phase and document.phase and not {ANY, query.phase} & set(document.phase)
    otherwise = query.failure and document.failure and query.failure not in document.failure
    points = {
        f"bottleneck {query.bottleneck}": 4 * (query.bottleneck in document.bottleneck),
        f"failure {query.failure}": 4 * (query.failure in document.failure),
        f"operator {', '.join(hits)}": min(sum(1 if hit in COMMON else 2 for hit in hits), 6),
        f"phase {query.phase}": 2 * (query.phase in document.phase),
        f"chip {', '.join(chips)}": 1 if situation and chips else 0,
        "any bottleneck": 1 if situation and ANY in document.bottleneck else 0,
        "any phase": 1 if situation and ANY in document.phase else 0,
        "about other operators": -3 if document.operators and query.operators and not hits else 0,
        "about another diagnosis": -2 if elsewhere else 0,
        "about other failures": -2 if otherwise else 0,
        "for another phase": -2 if another_phase else 0,
    }
    return {reason: value for reason, value in points.items() if value}


def _relevant(document: Document, query: Query, points: Iterable[str]) -> bool:
    if any(reason.startswith(("bottleneck ", "failure ", "operator ")) for reason in points):
        return True
    always = ANY in document.bottleneck and not document.operators and not document.failure
    return always and _is_situation(query)


def _is_situation(query: Query) -> bool:
    """Whether more is given than a question in words."""
    return bool(query.bottleneck or query.failure or query.phase or query.operators or not query.text)


def _chips(names: Sequence[str]) -> set[str]:
    """``sm_90a`` is ``sm_90`` with its own features."""
    return {name[:-1] if name.startswith("sm_") and name[-1:] in "af" else name for name in names}


def operator_name(operator: str) -> str:
    """``aten.native_layer_norm.default`` gives ``native_layer_norm``."""
    return operator.split(".")[1] if "." in operator else operator


def _names(operators: Sequence[str]) -> set[str]:
    """``aten.native_layer_norm.default`` gives ``native_layer_norm``, ``native``, ``layer`` and ``norm``."""
    names = set(map(operator_name, operators))
    return names | {word for name in names for word in name.split("_") if word}
