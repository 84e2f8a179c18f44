"""The profiler: how fast, against which baselines, and why?"""

from collections.abc import Sequence

from ..bus import Bus
from ..hardware.device import Device
from ..schemas import (
    BaselinesMeasured,
    CandidateProfiled,
    CandidateVerified,
    CompileReport,
    ConfirmationPlanned,
    Event,
    Evidence,
    KernelswarmError,
    ProfileReport,
    ProfilingFailed,
    SessionOpened,
    Verdict,
)
from .candidates import installed, source_of
from .runtime import Answer, Work


class Profiler:
    """Prepares the baselines when a session opens, then times candidates against them in interleaved runs."""

    role = "profiler"
    consumes: tuple[type[Event], ...] = (SessionOpened, CandidateVerified, ConfirmationPlanned)

    def __init__(self, device: Device, bus: Bus) -> None:
        self._device = device
        self._bus = bus

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Prepare baselines, or time one candidate."""
        opened = work.opened
        if isinstance(work.event, SessionOpened):
            report = await self._device.baselines(opened.problem, opened.facts)
            return [Answer(BaselinesMeasured(report=report))]
        thorough = isinstance(work.event, ConfirmationPlanned)
        compiled = _compiled(work)
        await installed(compiled, self._device, self._bus)
        source = await source_of(work)
        profile = await self._device.profile(opened.problem, opened.facts, source, compiled, thorough=thorough)
        return [Answer(_told(profile, thorough))]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """Say that the step was abandoned. Baselines that cannot be had show with the first candidate."""
        if isinstance(work.event, SessionOpened):
            return []
        report = ProfileReport(verdict=Verdict.harness_error, isolation="", evidence=Evidence(message=reason))
        return [Answer(_told(report, isinstance(work.event, ConfirmationPlanned)))]

    async def close(self) -> None:
        """Nothing of its own to release."""


def _told(report: ProfileReport, confirmation: bool) -> Event:
    if report.verdict is Verdict.correct:
        return CandidateProfiled(report=report, confirmation=confirmation)
    return ProfilingFailed(report=report, confirmation=confirmation)


def _compiled(work: Work) -> CompileReport:
    record = work.graph.nodes.get(work.envelope.node)
    if record is None or record.compile_report is None:
        raise KernelswarmError(f"node {work.envelope.node} of {work.envelope.session} was never compiled")
    return record.compile_report
