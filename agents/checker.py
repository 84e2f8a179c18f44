"""The checker: tells an author whether a draft compiles and is right on small inputs. Nobody waits for it."""

import asyncio
from collections.abc import Sequence

from ..hardware.languages.assembly import language_in
from ..schemas import CandidateChecked, CheckRequested, CompileReport, Event
from .candidates import DeviceAgent
from .runtime import Answer, Work


class Checker(DeviceAgent):
    """Compiles drafts and tries those that compile. It times nothing, and its inputs judge nobody."""

    role = "checker"
    consumes: tuple[type[Event], ...] = (CheckRequested,)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Check one draft; one that its lease does not permit is refused by the dispatcher."""
        request, opened = work.event, work.opened
        assert isinstance(request, CheckRequested)
        if request.lease and not work.graph.tasks.permits(work.envelope.id):
            return []
        language = await asyncio.to_thread(language_in, request.source, opened.pool, opened.language)
        report, _ = await self._device.compile(request.source, language)
        if not report.ok or request.compile_only:
            return [Answer(CandidateChecked(compiled=report))]
        verified = await self._device.check(opened.problem, opened.facts, request.source, report)
        return [Answer(CandidateChecked(compiled=report, verified=verified))]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """Say that the step was abandoned."""
        report = CompileReport(ok=False, language=work.opened.language, compiler="", log=reason)
        return [Answer(CandidateChecked(compiled=report))]
