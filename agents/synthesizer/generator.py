"""The generator as a synthesizer backend."""

import structlog

from ...codegen import Exhausted, Proposal
from ...schemas import CandidateProposed, SynthesisFailed, sha256
from .backend import Answer, Backend, Request
from .drafting import Defect, Drafters, parent_of

log = structlog.get_logger(__name__)


class GeneratorBackend(Backend):
    """Answers plans without a network or a model."""

    name = "playbook"

    def __init__(self) -> None:
        self._drafters = Drafters()
        self._defects: set[str] = set()
        """Defects of the generator, as far as their traceback was shown."""

    async def synthesize(self, request: Request) -> Answer:
        """Propose the next config's candidate, or say why there is none."""
        draft = await self._drafters.draft(request)
        if isinstance(draft, Defect):
            return Answer(failed=self._failed(draft, request))
        if isinstance(draft, Exhausted):
            return Answer(failed=SynthesisFailed(backend=self.name, reason=draft.reason, exhausted=True))
        return Answer(
            candidate=CandidateProposed(
                source=draft.source,
                sha256=sha256(draft.source),
                language=request.language,
                backend=self.name,
                rationale=draft.rationale,
                recipe=draft.config,
                parents=_parents(request, draft) if parent_of(request) else (),
                skills=(draft.skill,) if draft.skill else (),
            )
        )

    def _failed(self, defect: Defect, request: Request) -> SynthesisFailed:
        """The generator is deterministic: what it raised it would raise again, so nobody tries again."""
        reason = f"the generator has a defect: {defect.reason}"[:500]
        if reason not in self._defects:
            self._defects.add(reason)
            log.warning("no candidate", node=request.node, exception=defect.trace)
        return SynthesisFailed(backend=self.name, reason=reason)

    async def close(self) -> None:
        """End the processes that wrote."""
        await self._drafters.close()


def _parents(request: Request, proposal: Proposal) -> tuple[str, ...]:
    return (request.plan.parent, *((request.plan.second,) if proposal.is_crossed else ()))
