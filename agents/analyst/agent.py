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
from ..runtime import Answer, Work
from .diagnose import diagnose


class Analyst:
    """Diagnoses success and failure alike, so that the planner always hears of a node. Pure: it reads events only."""

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
        return [Answer(await asyncio.to_thread(diagnose, work.graph, work.envelope.node, work.event))]

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

    async def close(self) -> None:
        """Nothing to release."""
