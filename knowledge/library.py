"""What may be looked up on one pool: the shipped documents of its hardware and the manuals that the user added."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..schemas import InputError, Intent, KnowledgeRetrieved, Pool, ProblemFacts
from .documents import ANY, Document, corpus
from .manuals import manuals_of
from .retrieval import RULES, Hit, Query, constraints, fitting, search


@dataclass(frozen=True)
class Library:
    """Documents of one pool. Nothing of another platform, chip or language is in it, whoever asks for it and how."""

    pool: str
    platform: str
    chips: tuple[str, ...]
    documents: tuple[Document, ...]

    def query(
        self,
        *,
        language: str = "",
        intent: Intent | None = None,
        facts: ProblemFacts | None = None,
        bottleneck: str = "",
        failure: str = "",
        words: Sequence[str] = (),
    ) -> Query:
        """The signals of a situation on this pool.

        Args:
            language: What the candidate is written in; empty: any.
            intent: What the node is for.
            facts: The problem's operators are taken from them.
            bottleneck: Of the parent's diagnosis, or the one that is expected of a draft.
            failure: Verdict of the parent, if it is to be repaired.
            words: A question, the diagnosis's summary, the compiler's messages.
        """
        return Query(
            pool=self.pool,
            platform=self.platform,
            chips=self.chips,
            language=language,
            phase=intent or "",
            bottleneck=bottleneck,
            failure=failure,
            operators=facts.operators if facts is not None else (),
            text="\n".join(filter(None, words)),
        )

    def search(self, query: Query, *, limit: int = 5) -> tuple[Hit, ...]:
        """The best documents for ``query``: overviews first, then details, each group best first."""
        return search(query, documents=self.documents, limit=limit)

    def read(self, path: str) -> Document:
        """The document ``path``, rules included.

        Raises:
            InputError: there is none for this pool; the message names the nearest.
        """
        paths = {document.path: document for document in self.documents}
        if path in paths:
            return paths[path]
        near = difflib.get_close_matches(path, paths, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"no document {path!r} is there for pool {self.pool}"
            f"{hint or f'; `kernelswarm knowledge list --pool {self.pool}` names them'}"
        )

    def constraints(self, language: str) -> tuple[Document, ...]:
        """The rules that hold for every candidate in ``language`` here, by path."""
        return constraints(self.platform, language, self.documents)

    def retrieved(self, by: str, query: Query, hits: Sequence[Hit], *, with_text: bool = True) -> KnowledgeRetrieved:
        """The event that records what :meth:`search` answered to whom; ``by`` as the event's field describes it."""
        return KnowledgeRetrieved(
            by=by,
            query=query,
            documents=tuple(hit.record(with_text=with_text) for hit in hits),
            available=sum(not document.path.startswith(RULES) for document in self.documents),
        )


def open_library(pool: Pool, chips: Sequence[str], home: Path | None = None) -> Library:
    """The documents for ``pool``.

    Args:
        pool: Its platform and name decide.
        chips: What its hardware is: ``HardwareFacts.isa`` (instruction sets of a processor, ``sm_90`` of a GPU). Of a
            pool whose hardware is not known pass the pool's target, or nothing: documents that name chips are out then.
        home: ``KERNELSWARM_HOME``, where manuals of the user are kept; None: shipped documents only.
    """
    own = manuals_of(pool, home) if home is not None else ()
    here = Query(platform=pool.platform, chips=tuple(chips), pool=pool.name)
    languages = {ANY, *pool.languages}
    documents = tuple(document for document in fitting((*corpus(), *own), here) if languages & set(document.language))
    return Library(pool=pool.name, platform=pool.platform, chips=tuple(chips), documents=documents)
