"""The compiler: a candidate's source to a loadable artifact for the pool's target. Needs no accelerator."""

from collections.abc import Sequence

from ..schemas import CandidateCompiled, CandidateProposed, CompilationFailed, CompileReport, Event
from .candidates import DeviceAgent
from .runtime import Answer, Work


class Compiler(DeviceAgent):
    """Compiles candidates and puts the artifacts where workers on other hosts find them."""

    role = "compiler"
    consumes: tuple[type[Event], ...] = (CandidateProposed,)

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Compile one candidate."""
        candidate = work.event
        assert isinstance(candidate, CandidateProposed)
        report, artifacts = await self._device.compile(candidate.source, candidate.language)
        if not report.ok:
            return [Answer(CompilationFailed(report=report))]
        for artifact in report.artifacts:
            await self._bus.put_artifact(artifacts[artifact.sha256], name=artifact.name, media_type=artifact.media_type)
        return [Answer(CandidateCompiled(report=report))]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """Say that the step was abandoned."""
        report = CompileReport(ok=False, language=work.opened.language, compiler="", log=reason)
        return [Answer(CompilationFailed(report=report, given_up=True))]
