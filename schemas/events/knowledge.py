"""A retrieval from the knowledge corpus: what was asked, what came back, and why."""

from ..base import Schema
from .base import Event


class KnowledgeQuery(Schema, frozen=True, kw_only=True):
    """The signals that a retrieval goes by. An empty field asks for nothing."""

    platform: str
    """``cpu``, ``nvidia``, …: documents of another platform never come back."""
    language: str = ""
    """Language of the candidate; empty: any."""
    chips: tuple[str, ...] = ()
    """What the pool's hardware is, in the words that documents use: ``sm_90``, ``gfx942``, ``avx512f``. A document that
    names chips comes back only if one of them is here."""
    pool: str = ""
    """Name of the pool: its own manuals are searched beside the shipped documents."""
    bottleneck: str = ""
    """The diagnosis, as :class:`Bottleneck` spells it."""
    failure: str = ""
    """What went wrong, as :class:`Verdict` spells it."""
    phase: str = ""
    """``draft``, ``improve`` or ``repair``."""
    operators: tuple[str, ...] = ()
    """ATen operators of the problem."""
    text: str = ""
    """Words: a question, the diagnosis in its own words, a compiler's message."""


class RetrievedDocument(Schema, frozen=True, kw_only=True):
    """One document that a retrieval returned."""

    path: str
    """``hardware/nvidia/tma.md``, or ``manuals/NAME/…`` for what a user added."""
    title: str
    level: str
    """``overview`` or ``detail``."""
    score: float
    """Points: the signals that matched, and up to :data:`TEXT_POINTS` for the words."""
    reasons: tuple[str, ...]
    """What the points were given for: ``bottleneck latency``, ``operator softmax``, ``words wgmma, tma``."""
    sha256: str
    """Of the text, so that a later reader can see whether it still has the same document."""
    text: str = ""
    """The text as it was handed on; empty where only path and title were."""


class KnowledgeRetrieved(Event, frozen=True, kw_only=True, tag="knowledge.retrieved.v1"):
    """Documents were looked up for a node. The texts are in it, so that a replay needs no corpus."""

    by: str
    """Who asked: ``prompt`` (its assembly), ``search_knowledge`` (a model's tool), ``outside`` (an agent over MCP)."""
    query: KnowledgeQuery
    documents: tuple[RetrievedDocument, ...]
    """Overviews first, then details, each group best first; empty: nothing matched."""
    available: int = 0
    """How many documents the pool may see at all, rules left out."""
