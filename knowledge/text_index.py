"""Ranking documents by words: BM25 (Robertson and Zaragoza, 2009) as the library bm25s computes it.

The same text gives the same ranking everywhere: words are split by a regular expression and not by a locale, scores are
added in the order of the words, and rounded before anything is compared.
"""

import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .documents import Document

MOST_WORDS = 200
"""Different words of a query that count; a compiler's output may have thousands."""

_TITLE_WEIGHT = 3
"""How often title and keywords count, compared with the text."""
_WORD = re.compile(r"[a-z0-9_]+(?:\.[a-z0-9_]+)*")
_PART = re.compile(r"[a-z0-9]+")
_STOP = frozenset((
    "a", "about", "all", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for",
    "from", "has", "have", "how", "if", "in", "into", "is", "it", "its", "may", "more", "most", "no", "not",
    "of", "on", "one", "only", "or", "other", "out", "so", "some", "such", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "to", "up", "use", "used", "was", "what", "when",
    "where", "which", "while", "who", "why", "will", "with", "without", "you", "your",
))  # fmt: skip


class TextIndex:
    """BM25 over some documents."""

    def __init__(self, documents: Sequence[Document]) -> None:
        rows = [_words_of(document) for document in documents]
        self._vocabulary = {word: place for place, word in enumerate(sorted({word for row in rows for word in row}))}
        self._size = len(rows)
        self._bm25 = _bm25([[self._vocabulary[word] for word in row] for row in rows], self._vocabulary)

    def scores(self, text: str) -> list[dict[str, float]]:
        """For each document, what each of the words of ``text`` adds to its score; words that add nothing are left
        out."""
        matches: list[dict[str, float]] = [{} for _ in range(self._size)]
        for word in list(dict.fromkeys(words(text)))[:MOST_WORDS]:
            if word in self._vocabulary:
                column = self._bm25.get_scores_from_ids([self._vocabulary[word]])
                for row, score in enumerate(column.tolist()):
                    if score > 0:
                        matches[row][word] = round(score, 4)
        return matches


@lru_cache(maxsize=8)
def text_index(documents: tuple[Document, ...]) -> TextIndex:
    """The index of ``documents``; kept, since a session asks the same pool's again and again."""
    return TextIndex(documents)


def words(text: str) -> list[str]:
    """The words of ``text`` in order: lower case, singular, no numbers; a dotted or underscored name also in its
    parts."""
    result = []
    for match in _WORD.findall(text.lower()):
        parts = _PART.findall(match)
        for word in [match, *parts] if len(parts) > 1 else parts:
            if word not in _STOP and len(word) > 1 and not word.isdigit():
                result.append(_singular(word))
    return result


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _words_of(document: Document) -> list[str]:
    heading = words(" ".join((document.title, *document.keywords, *document.operators)))
    return heading * _TITLE_WEIGHT + words(document.text)


def _bm25(rows: list[list[int]], vocabulary: dict[str, int]) -> Any:
    # Imported here: it brings numpy, which commands that look nothing up need not wait for.
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)
    index = bm25s.BM25(k1=1.2, b=0.6, method="lucene", dtype="float64", backend="numpy", csc_backend="numpy")
    if rows:
        index.index((rows, dict(vocabulary)), create_empty_token=False, show_progress=False)
    return index
