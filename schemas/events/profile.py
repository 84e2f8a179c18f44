"""The profiler's answers."""

from ..measurement import ProfileReport
from .base import Event


class CandidateProfiled(Event, frozen=True, kw_only=True, tag="candidate.profiled.v1"):
    """Timed against the baselines in one interleaved run."""

    report: ProfileReport
    confirmation: bool = False
    """Whether it answers a ConfirmationPlanned."""


class ProfilingFailed(Event, frozen=True, kw_only=True, tag="candidate.profiling_failed.v1"):
    """It could not be timed: it crashed, hung, or its clock disagreed."""

    report: ProfileReport
    confirmation: bool = False
