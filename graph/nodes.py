"""What is known of one node of a search graph: a fold over the events that speak of it."""

from dataclasses import dataclass, field

from ..schemas import (
    CandidateCompiled,
    CandidateProfiled,
    CandidateProposed,
    CandidateVerified,
    CompilationFailed,
    CompileReport,
    ConfirmationPlanned,
    Envelope,
    Event,
    Interval,
    NodeDiagnosed,
    NodePlanned,
    ProfileReport,
    ProfilingFailed,
    SynthesisFailed,
    Verdict,
    VerificationFailed,
    VerifyReport,
)


@dataclass
class NodeRecord:
    """All that is known of one node so far."""

    name: str
    session: str = ""
    """Session that planned it: in a fork another one than its own, for what it inherited."""
    elsewhere: bool = False
    """Whether it was measured on other hardware than the session's: then nothing of that is kept here."""
    plan: NodePlanned | None = None
    candidate: CandidateProposed | None = None
    synthesis_failure: SynthesisFailed | None = None
    compile_report: CompileReport | None = None
    verify_report: VerifyReport | None = None
    profile_report: ProfileReport | None = None
    diagnosis: NodeDiagnosed | None = None
    confirmation: ProfileReport | None = None
    confirmation_diagnosis: NodeDiagnosed | None = None
    event_ids: list[str] = field(default_factory=list)

    @property
    def parent(self) -> str:
        """Name of the parent node, empty for a draft."""
        return self.plan.parent if self.plan else ""

    @property
    def speedup(self) -> Interval | None:
        """Against the baseline that counts, of the confirmation where there was one; None if wrong or unknown."""
        diagnosis = self.confirmation_diagnosis or self.diagnosis
        return diagnosis.speedup if diagnosis else None

    @property
    def fitness(self) -> float:
        """What :attr:`speedup` counts as: see :attr:`.NodeDiagnosed.fitness`; 0 if wrong or unknown."""
        diagnosis = self.confirmation_diagnosis or self.diagnosis
        return diagnosis.fitness if diagnosis else 0.0

    @property
    def is_too_noisy(self) -> bool:
        """Whether :attr:`fitness` is the low end of a speedup that nobody can tell; of older sessions it is never."""
        return self.speedup is not None and self.speedup.is_noise and self.fitness != self.speedup.median

    @property
    def doubts(self) -> str:
        """What speaks against :attr:`speedup` if it was timed once (:meth:`.Interval.doubts`); else empty."""
        timing = self.profile_report.timing if self.profile_report else None
        if self.confirmation_diagnosis is not None or self.speedup is None or timing is None:
            return ""
        return self.speedup.doubts(timing.largest_load)

    @property
    def state(self) -> str:
        """Where the node stands, as one word for people."""
        if self.diagnosis:
            return "done" if self.diagnosis.verdict is Verdict.correct else str(self.diagnosis.verdict)
        if self.synthesis_failure:
            return "synthesis failed"
        for reached, name in (
            (self.profile_report, "profiled"),
            (self.verify_report, "verified"),
            (self.compile_report, "compiled"),
            (self.candidate, "proposed"),
        ):
            if reached is not None:
                return name
        return "planned"

    def apply(self, envelope: Envelope, event: Event) -> None:
        """Fold one event about this node in."""
        self.event_ids.append(envelope.id)
        match event:
            case NodePlanned():
                self.plan = event
            case CandidateProposed():
                self.candidate = event
            case SynthesisFailed():
                self.synthesis_failure = event
            case CandidateCompiled() | CompilationFailed():
                self.compile_report = event.report
            case VerificationFailed() | CandidateProfiled() | ProfilingFailed() if event.confirmation:
                self.confirmation = event.report if isinstance(event.report, ProfileReport) else None
            case CandidateVerified() | VerificationFailed():
                self.verify_report = event.report
            case CandidateProfiled() | ProfilingFailed():
                self.profile_report = event.report
            case NodeDiagnosed() if event.confirmation:
                self.confirmation_diagnosis = event
            case NodeDiagnosed():
                self.diagnosis = event
            case ConfirmationPlanned():
                pass
            case _:
                # An event this version knows but the graph has no use for: kept in event_ids only.
                pass
