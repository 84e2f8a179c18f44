"""The verifier's answers."""

from ..measurement import VerifyReport
from .base import Event


class CandidateVerified(Event, frozen=True, kw_only=True, tag="candidate.verified.v1"):
    """Right on every case."""

    report: VerifyReport
    confirmation: bool = False
    """Whether it answers a ConfirmationPlanned."""


class VerificationFailed(Event, frozen=True, kw_only=True, tag="candidate.verification_failed.v1"):
    """Wrong, or not honest: the verdict names it and the evidence shows it."""

    report: VerifyReport
    confirmation: bool = False
