"""Candidates that a user wrote: handed in as they are, one for each plan."""

import asyncio

from ...hardware.languages.assembly import language_in
from ...schemas import CandidateProposed, SynthesisFailed, sha256
from .backend import GIVEN, Answer, Backend, Request


class GivenBackend(Backend):
    """Answers the n-th plan with the n-th file the session was opened with."""

    name = GIVEN

    async def synthesize(self, request: Request) -> Answer:
        """Hand in the next file, or say that there is none left."""
        index = request.plan.number - 1
        if index >= len(request.given):
            return Answer(failed=SynthesisFailed(backend=self.name, reason="no file left to judge", exhausted=True))
        source = request.given[index]
        return Answer(
            candidate=CandidateProposed(
                source=source,
                sha256=sha256(source),
                language=await asyncio.to_thread(language_in, source, request.pool, request.language),
                backend=self.name,
                rationale="handed in by the user",
            )
        )
