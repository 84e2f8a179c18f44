"""The analyst on the bus."""

import asyncio
from collections.abc import Sequence

from ...schemas import (
    Bottleneck,
    CandidateProfiled,
    CompilationFailed,
    Event,
    NodeDiagnosed,
    ProfilingFailed,
    SynthesisFailed,
    Verdict,
    VerificationFailed,
)
from ..consulting import AdvisedAgent, consult
from ..runtime import Answer, Work
from .by_model import consultation
from .diagnose import diagnose


class Analyst(AdvisedAgent):
    """Diagnoses success and failure alike, so that the planner always hears of a node. It reads events only.

    Where the session names a model for it, that is asked as well; the rules stay the fallback.
    """

    role = "analyst"
    consumes: tuple[type[Event], ...] = (
        CandidateProfiled,
        SynthesisFailed,
        CompilationFailed,
        VerificationFailed,
        ProfilingFailed,
    )

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Diagnose one node."""
        graph, node = work.graph, work.envelope.node
        ruled = await asyncio.to_thread(diagnose, graph, node, work.event)
        asking = consultation(graph, node, work.event, ruled)
        if asking is None:
            return [Answer(ruled)]
        answers, diagnosed = await consult(self._adviser, work, asking)
        return [*answers, Answer(diagnosed)]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """A node without a diagnosis would leave the planner waiting for ever."""
        return [
            Answer(
                NodeDiagnosed(
                    verdict=Verdict.harness_error,
                    fitness=0.0,
                    bottleneck=Bottleneck.fault,
                    summary=reason,
                    confirmation=bool(getattr(work.event, "confirmation", False)),
                )
            )
        ]
