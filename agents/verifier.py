"""The verifier: is it right, and is it honest?"""

from collections.abc import Sequence

from ..schemas import CandidateCompiled, CandidateVerified, Event, Evidence, Verdict, VerificationFailed, VerifyReport
from .candidates import DeviceAgent, installed, source_of
from .runtime import Answer, Work


class Verifier(DeviceAgent):
    """Runs candidates against the reference's float64 oracle, in processes apart."""

    role = "verifier"
    consumes: tuple[type[Event], ...] = (CandidateCompiled,)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Verify one candidate."""
        compiled = work.event
        assert isinstance(compiled, CandidateCompiled)
        await installed(compiled.report, self._device, self._bus)
        source = await source_of(work)
        report = await self._device.verify(work.opened.problem, source, compiled.report, work.opened.facts)
        if report.verdict is Verdict.correct:
            return [Answer(CandidateVerified(report=report))]
        return [Answer(VerificationFailed(report=report))]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """Say that the step was abandoned."""
        report = VerifyReport(verdict=Verdict.harness_error, isolation="", evidence=Evidence(message=reason))
        return [Answer(VerificationFailed(report=report))]
