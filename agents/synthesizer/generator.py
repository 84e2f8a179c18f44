"""The generator as a synthesizer backend."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import structlog

from ...codegen.generator import Exhausted, Generator, Proposal
from ...schemas import CandidateProposed, SynthesisFailed, sha256
from .backend import Answer, Attempt, Request

log = structlog.get_logger(__name__)

_DRAFTING = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drafting")
"""Drafts of all sessions of this process are written one after the other. Python runs one thread at a time: several at
once end when all are done, and the event loop waits for each of them at every turn.
"""


class GeneratorBackend:
    """Answers plans without a network or a model."""

    name = "playbook"

    def __init__(self) -> None:
        self._generator = Generator()
        self._defects: set[str] = set()
        """Defects of the generator, as far as their traceback was shown."""

    def check(self, model: str = "", base_url: str = "") -> None:
        """Nothing can be missing."""

    async def synthesize(self, request: Request) -> Answer:
        """Propose the next config's candidate, or say why there is none."""
        parent = _parent(request)
        # A large graph takes seconds: heartbeats, acknowledgements and the recorder share the event loop.
        given_up = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            proposal = await loop.run_in_executor(_DRAFTING, self._proposed, request, parent, given_up)
        finally:
            given_up.set()  # Cancelled: nobody waits for it, others wait for the thread.
        if isinstance(proposal, SynthesisFailed):
            return Answer(failed=proposal)
        if isinstance(proposal, Exhausted):
            failed = SynthesisFailed(backend=self.name, reason=proposal.reason, exhausted=True)
            return Answer(failed=failed)
        return Answer(
            candidate=CandidateProposed(
                source=proposal.source,
                sha256=sha256(proposal.source),
                language=request.language,
                backend=self.name,
                rationale=proposal.rationale,
                recipe=proposal.config,
                parents=_parents(request, proposal) if parent else (),
                skills=(proposal.skill,) if proposal.skill else (),
            )
        )

    def _proposed(
        self, request: Request, parent: Attempt | None, given_up: threading.Event
    ) -> Proposal | Exhausted | SynthesisFailed:
        """The generator's answer. It is deterministic: what it raises it would raise again, so nobody tries again."""
        try:
            return self._propose(request, parent, given_up)
        except Exception as error:
            reason = f"the generator has a defect: {type(error).__name__}: {error}"[:500]
            if reason not in self._defects:
                self._defects.add(reason)
                log.warning("no candidate", node=request.node, exc_info=error)
            return SynthesisFailed(backend=self.name, reason=reason)

    def _propose(self, request: Request, parent: Attempt | None, given_up: threading.Event) -> Proposal | Exhausted:
        return self._generator.propose(
            request.facts,
            request.hardware,
            request.plan,
            parent.recipe if parent else None,
            [attempt.recipe for attempt in request.tried if attempt.source],
            request.skills,
            {sha256(attempt.source) for attempt in request.tried},
            (request.second.recipe or None) if request.second and parent else None,
            request.language,
            given_up.is_set,
        )

    async def close(self) -> None:
        """Nothing to release."""


def _parent(request: Request) -> Attempt | None:
    """The node to start from: its own backend may be another one, then its config means nothing here."""
    if not request.plan.parent or not request.lineage:
        return None
    return request.lineage[0] if request.lineage[0].recipe else None


def _parents(request: Request, proposal: Proposal) -> tuple[str, ...]:
    return (request.plan.parent, *((request.plan.second,) if proposal.is_crossed else ()))
