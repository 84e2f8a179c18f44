"""Ranking documents by words: BM25 (Robertson and Zaragoza, 2009) as the library bm25s computes it.

The same text gives the same ranking everywhere: words are split and cut to their stems by regular expressions and not
by a locale, scores are added in the order of the words, and rounded before anything is compared.
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
_BITS = re.compile(r"\b(\d+)-bits?\b")
"""A width is one word, since numbers alone are none."""
_IRREGULAR = {"indices": "index", "matrices": "matrix", "vertices": "vertex", "axes": "axis", "embed": "embed"}
_VOWEL = re.compile(r"[aeiouy]")
_ENDINGS = (
    # As many letters as {} says stay before an ending: `state` and `precise` are no verbs in -ate and -ise.
    re.compile(r"(?<=[a-z]{5})(?:i[sz]|at)(?:e|ed|ing|or|able)$"),
    re.compile(r"(?<=[a-z]{5})(?:i[sz]at|at|it)ion$"),
    re.compile(r"(?<=[a-z]{3}c)tion$"),
    re.compile(r"(?<=[a-z]{3})(?:ion|ing|(?<!e)ed|(?<!e)e)$"),
)
"""Endings of verbs and of the nouns made from them; the first that matches goes."""
_STOP = frozenset((
    "a", "about", "all", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for",
    "from", "has", "have", "how", "if", "in", "into", "is", "it", "its", "may", "more", "most", "no", "not",
    "of", "on", "one", "only", "or", "other", "out", "so", "some", "such", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "to", "up", "use", "used", "was", "what", "when",
    "where", "which", "while", "who", "why", "will", "with", "without", "you", "your",
    "also", "am", "been", "did", "get", "gets", "had", "instead", "just", "many", "me", "much", "must", "my",
    "need", "needs", "our", "should", "take", "takes", "together", "too", "very", "want", "we", "would",
))  # fmt: skip


class TextIndex:
    """BM25 over some documents."""

    def __init__(self, documents: Sequence[Document]) -> None:
        rows = [[stem(word) for word in _words_of(document)] for document in documents]
        self._vocabulary = {word: place for place, word in enumerate(sorted({word for row in rows for word in row}))}
        self._size = len(rows)
        self._bm25 = _bm25([[self._vocabulary[word] for word in row] for row in rows], self._vocabulary)

    def scores(self, text: str) -> list[dict[str, float]]:
        """For each document, what each of the words of ``text`` adds to its score; words that add nothing are left
        out."""
        matches: list[dict[str, float]] = [{} for _ in range(self._size)]
        for root, word in list(distinct_words(text).items())[:MOST_WORDS]:
            if root in self._vocabulary:
                column = self._bm25.get_scores_from_ids([self._vocabulary[root]])
                for row, score in enumerate(column.tolist()):
                    if score > 0:
                        matches[row][word] = round(score, 4)
        return matches


@lru_cache(maxsize=8)
def text_index(documents: tuple[Document, ...]) -> TextIndex:
    """The index of ``documents``; kept, since a session asks the same pool's again and again."""
    return TextIndex(documents)


def words(text: str) -> list[str]:
    """The words of ``text`` in order: lower case, no numbers; a dotted or underscored name also in its parts."""
    result = []
    for match in _WORD.findall(_BITS.sub(r"\1bit", text.lower())):
        parts = _PART.findall(match)
        for word in [match, *parts] if len(parts) > 1 else parts:
            if word not in _STOP and len(word) > 1 and not word.isdigit():
                result.append(word)
    return result


def distinct_words(text: str) -> dict[str, str]:
    """By its stem, each word of ``text`` as it is first spelled there."""
    result: dict[str, str] = {}
    for word in words(text):
        result.setdefault(stem(word), word)
    return result


def stem(word: str) -> str:
    """What the forms of a word share: ``coalesc`` of *coalesced* and *coalescing*, ``quant`` of *quantised* and
    *quantization*. Names with digits or underscores stay as they are."""
    if len(word) <= 3 or not word.isalpha():
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith(("ies", "ied")):
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in _ENDINGS:
        root, hits = ending.subn("", word)
        # Not str of string.
        if hits and _VOWEL.search(root):
            # mapped, mapping: map; but filled: fill.
            is_doubled = not word.endswith("e") and len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz"
            return root[:-1] if is_doubled else root
    return word


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
