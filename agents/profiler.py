"""The profiler: how fast, against which baselines, and why?"""

import asyncio
import contextlib
import dataclasses
import math
import time
from collections.abc import Sequence
from functools import partial

import structlog
from msgspec.structs import replace

from ..bus import Bus
from ..graph.worth_profiling import uses_profilers, worth_a_look
from ..hardware.device import Device
from ..hardware.dropin import finish
from ..hardware.harness.timing.effort import Effort
from ..hardware.harness.timing.one_by_one import doubt
from ..schemas import (
    DEADLINE,
    FINISHED,
    FROM_SEED,
    IDLE,
    REFERENCE_DIED,
    BaselineReport,
    BaselinesMeasured,
    CandidateProfiled,
    CandidateVerified,
    CompileReport,
    ConfirmationPlanned,
    ContractProperty,
    Event,
    Evidence,
    KernelswarmError,
    ProfileReport,
    ProfilingFailed,
    SessionOpened,
    StopRequested,
    Timing,
    Verdict,
)
from .candidates import DeviceAgent, installed, source_of
from .runtime import Answer, Postponed, Work

LEAST_SPEEDUP = 0.9
"""Finalists whose judged interval lies below are not timed in ordinary processes: they are slower there, too."""

MOST_PATIENCE_S = 900.0
"""How long finalists of a session without minutes wait for baselines in the background: without them a win may be
none. Where it has minutes they wait until its finalists must be confirmed."""
SHARE_OF_TIME = 0.25
"""The same as a share of the minutes where a session has one candidate, or was resumed: nobody knows what is left."""

OVERTIME = 0.125
"""Share of its minutes that a session without a deadline may take beyond them before its finalists are timed in no
further processes."""
LEAST_OVERTIME_S = 30.0

STEPS_OF_FINALISTS = 2
"""By the judge, and in ordinary processes."""

HURRIED = ("minutes", DEADLINE, "interrupted", FINISHED, IDLE, REFERENCE_DIED)
"""Reasons of a stop after which finalists wait for no baseline: somebody, or the time, wants the session to end."""

log = structlog.get_logger(__name__)

NO_WEIGHTS = ContractProperty(
    name="weights",
    ok=False,
    is_essential=True,
    detail="it takes nobody's weights: it makes its own, which are right under the reference's seed alone",
)
"""Why a module that is judged as KernelBench judges it is no drop-in, and no win."""


class Profiler(DeviceAgent):
    """Prepares the baselines when a session opens, then times candidates against them in interleaved runs."""

    role = "profiler"
    consumes: tuple[type[Event], ...] = (SessionOpened, CandidateVerified, ConfirmationPlanned)

    def __init__(self, device: Device, bus: Bus) -> None:
        super().__init__(device, bus)
        self._logged_reasons: set[str] = set()
        """What profilers cannot do here, as far as it was said."""

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Prepare baselines, or time one candidate."""
        opened = work.opened
        if isinstance(work.event, SessionOpened):
            if uses_profilers(opened):
                self._device.prepare_profilers()
            report = await self._device.baselines(opened.problem, opened.facts)
            self._get_ordinary_ready(work, report)
            return [Answer(BaselinesMeasured(report=report))]
        thorough = isinstance(work.event, ConfirmationPlanned)
        if work.may_wait and not thorough and await self._finalist_waits(work):
            raise Postponed
        compiled = _compiled(work)
        await installed(compiled, self._device, self._bus)
        source = await source_of(work)
        effort = dataclasses.replace(_effort(work), hurried=partial(self._hurried, work))
        profile = await self._device.profile(
            *(opened.problem, opened.facts, source, compiled),
            thorough=thorough,
            effort=effort.for_next(STEPS_OF_FINALISTS) if thorough else effort,
            limits=_limits(work),
        )
        if worth_a_look(work.graph, work.envelope.node, profile, finalist=thorough):
            profile = await self._looked_into(work, profile, source, compiled)
        if thorough and _may_win(work, profile):
            profile = await self._as_handed_over(work, profile, source)
        return [*self._joined(work), Answer(_profile_event(profile, thorough))]

    def _get_ordinary_ready(self, work: Work, report: BaselineReport) -> None:
        if work.opened.confirmations:
            pending = [status.name for status in report.statuses if status.pending]
            self._device.get_ordinary_ready(work.opened.problem, work.opened.facts, pending)

    def _joined(self, work: Work) -> list[Answer]:
        """The baselines again, with those that were still compiled when they were measured before and have joined."""
        now = self._device.joined(work.opened.problem, work.opened.facts)
        if now is not None:
            self._get_ordinary_ready(work, now)
        return [] if now is None else [Answer(BaselinesMeasured(report=now), node="")]

    async def _as_handed_over(self, work: Work, profile: ProfileReport, source: str) -> ProfileReport:
        """``profile`` with what the finished file does: its time in ordinary processes, and whether it is a drop-in."""
        opened, verified = work.opened, work.graph.nodes[work.envelope.node].verify_report
        if profile.timing is not None and (reason := doubt(profile.timing, opened.against)):
            return replace(profile, ordinary_missing=reason)
        text = await asyncio.to_thread(finish, opened.problem, opened.facts, source, verified)
        absent = profile.timing.absent if profile.timing is not None else {}
        checked: asyncio.Future[tuple[ContractProperty, ...]] | None = None
        if _wins(opened, profile.timing):
            # It most likely has to be known, and takes a processor while the other waits for its processes.
            checked = asyncio.ensure_future(self._contract(work, text))
        try:
            timing, missing = await self._device.ordinary(
                opened.problem, opened.facts, text, effort=_effort(work), absent=tuple(absent)
            )
            if not _wins(opened, profile.timing if opened.counts_device_alone else timing):
                return replace(profile, ordinary=timing, ordinary_missing=missing)
            properties = await (checked or self._contract(work, text))
        finally:
            if checked is not None:
                checked.cancel()
                await asyncio.gather(checked, return_exceptions=True)
        broken = [check for check in properties if check.is_essential and not check.ok]
        # Where the device's time decides, the call stands beside it all the same, and the analyst says what is broken.
        if broken and not opened.counts_device_alone:
            timing, missing = None, f"the finished file is no drop-in ({broken[0].name}): {broken[0].detail}"
        return replace(profile, ordinary=timing, ordinary_missing=missing, contract=properties)

    async def _contract(self, work: Work, text: str) -> tuple[ContractProperty, ...]:
        """What holds of the finished file ``text`` as a drop-in."""
        verified = work.graph.nodes[work.envelope.node].verify_report
        if verified is not None and verified.weights == FROM_SEED:
            return (NO_WEIGHTS,)
        return await self._device.contract(text, work.opened.problem)

    async def _looked_into(
        self, work: Work, profile: ProfileReport, source: str, compiled: CompileReport
    ) -> ProfileReport:
        """``profile`` with what the accelerator's profilers saw; without, if they cannot look: a timing stands."""
        try:
            seen = await self._device.inspect(work.opened.problem, source, compiled)
        except (KernelswarmError, OSError) as error:
            self._say(work, str(error))
            return profile
        for reason in seen.unavailable if seen is not None else ():
            self._say(work, reason)
        return replace(profile, device=seen)

    async def _hurried(self, work: Work) -> None:
        """Return once the session is asked to end after the event in hand."""
        tail = self._bus.tail(session=work.envelope.session, after=work.seq)
        async with contextlib.aclosing(tail):
            async for _, envelope in tail:
                event = envelope.event()
                if isinstance(event, StopRequested) and event.reason in HURRIED:
                    return

    async def _finalist_waits(self, work: Work) -> bool:
        """Whether time is nearly over, and a finalist that was chosen since is not timed: it alone can be a win."""
        if not work.opened.reserve:
            return False
        later = [envelope for _, envelope in await self._bus.history(work.envelope.session, after=work.seq)]
        events = [(envelope.node, envelope.event()) for envelope in later]
        stops = (work.graph.stop, *(event for _, event in events))
        if not any(isinstance(event, StopRequested) and event.reason == "minutes" for event in stops):
            return False
        timed = {
            node
            for node, event in events
            if isinstance(event, (CandidateProfiled, ProfilingFailed)) and event.confirmation
        }
        return any(isinstance(event, ConfirmationPlanned) and node not in timed for node, event in events)

    def _say(self, work: Work, reason: str) -> None:
        """Tell once in the life of this worker what every candidate has to do without."""
        if reason not in self._logged_reasons:
            self._logged_reasons.add(reason)
            log.warning("a profile lacks something", node=work.envelope.node, reason=reason)

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """Say that the step was abandoned. Baselines that cannot be had show with the first candidate."""
        if isinstance(work.event, SessionOpened):
            return []
        report = ProfileReport(verdict=Verdict.harness_error, isolation="", evidence=Evidence(message=reason))
        return [Answer(_profile_event(report, isinstance(work.event, ConfirmationPlanned)))]


def _wins(opened: SessionOpened, timing: Timing | None) -> bool:
    """Whether a timing shows a win over what a win is measured against."""
    return timing is not None and timing.speedup[timing.baseline(opened.against)].is_win


def _may_win(work: Work, profile: ProfileReport) -> bool:
    """Whether it pays to time it in ordinary processes: the first finalist, and who is not clearly slower."""
    assert isinstance(work.event, ConfirmationPlanned)
    timing = profile.timing
    if profile.verdict is not Verdict.correct or timing is None:
        return False
    chosen = timing.speedup[timing.baseline(work.opened.against)]
    return work.event.rank == 1 or chosen.high > LEAST_SPEEDUP


def _patience_s(work: Work) -> float:
    """Seconds that a finalist waits for baselines in the background: none once the session is asked to end."""
    opened, stop = work.opened, work.graph.stop
    if stop is not None and stop.reason in HURRIED:
        return 0.0
    if opened.minutes is None:
        return MOST_PATIENCE_S
    left_s = _left_s(work) - opened.spent_s
    if left_s < 0 < opened.reserve:
        # A deadline would have closed it: it was resumed, and has minutes that its opening does not tell.
        return SHARE_OF_TIME * 60 * opened.minutes
    return max(0.0, left_s - 60 * opened.reserve)


def _left_s(work: Work) -> float:
    """Seconds of the session's minutes that are left; below 0 once they are over."""
    assert work.opened.minutes is not None
    if work.graph.stop is not None and work.graph.stop.reason == "minutes" and work.opened.reserve:
        # The deadline comes so long after this, also where the session stood still before it was resumed.
        return 60 * work.opened.reserve - (time.time_ns() - work.graph.stop_ns) / 1e9
    return 60 * work.opened.minutes - (time.time_ns() - work.graph.opened_ns) / 1e9


def _effort(work: Work) -> Effort:
    """In how many processes a candidate is timed; a finalist's are no more once its session is out of time."""
    opened, now = work.opened, time.monotonic()
    if not isinstance(work.event, ConfirmationPlanned):
        # A session of one candidate has nothing else to do meanwhile.
        share_s = math.inf if opened.minutes is None else SHARE_OF_TIME * 60 * opened.minutes
        patience_s = min(share_s, _patience_s(work)) if opened.budget == 1 else 0.0
        return Effort(against=opened.against, patient_until=now + patience_s)
    until = math.inf
    if opened.minutes is not None:
        # Where the session closes with its minutes, half of what it keeps for its finalists is for the last process.
        beyond_s = -30 * opened.reserve if opened.reserve else max(LEAST_OVERTIME_S, OVERTIME * 60 * opened.minutes)
        left_s = _left_s(work) + beyond_s
        # One that is later and was not asked to stop was resumed: it has minutes that its opening does not tell.
        until = now + left_s if left_s > 0 or work.graph.stop is not None else math.inf
    patient_until = now + _patience_s(work)
    return Effort(processes=work.event.processes, against=opened.against, until=until, patient_until=patient_until)


def _profile_event(report: ProfileReport, confirmation: bool) -> Event:
    if report.verdict is Verdict.correct:
        return CandidateProfiled(report=report, confirmation=confirmation)
    return ProfilingFailed(report=report, confirmation=confirmation)


def _limits(work: Work) -> tuple[str, ...]:
    record = work.graph.nodes.get(work.envelope.node)
    return record.verify_report.limits if record is not None and record.verify_report is not None else ()


def _compiled(work: Work) -> CompileReport:
    record = work.graph.nodes.get(work.envelope.node)
    if record is None or record.compile_report is None:
        raise KernelswarmError(f"node {work.envelope.node} of {work.envelope.session} was never compiled")
    return record.compile_report
