"""The search graph of a session: a fold over its events, shared by every agent that looks back."""

from dataclasses import dataclass, field

from ..schemas import (
    BaselinesMeasured,
    CandidateCompiled,
    CandidateProfiled,
    CandidateProposed,
    CandidateVerified,
    CompilationFailed,
    CompileReport,
    ConfirmationPlanned,
    Envelope,
    Event,
    ModelCalled,
    NodeDiagnosed,
    NodePlanned,
    ProfileReport,
    ProfilingFailed,
    SessionClosed,
    SessionOpened,
    StopRequested,
    SynthesisFailed,
    Verdict,
    VerificationFailed,
    VerifyReport,
)


@dataclass
class NodeRecord:
    """All that is known of one node so far."""

    name: str
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
    def fitness(self) -> float:
        """Median speedup against the best baseline, of the confirmation where there was one; 0 if wrong or unknown."""
        told = self.confirmation_diagnosis or self.diagnosis
        return told.fitness if told else 0.0

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


class SearchGraph:
    """Fold of a session's events in stream order. The same events give the same graph."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.opened: SessionOpened | None = None
        self.opened_id = ""
        self.baselines: BaselinesMeasured | None = None
        self.stop: StopRequested | None = None
        self.closed: SessionClosed | None = None
        self.nodes: dict[str, NodeRecord] = {}
        self.calls: list[ModelCalled] = []
        self.decisive: list[tuple[str, Event]] = []
        """What the planner answers, as (node, event) in stream order."""

    def apply(self, envelope: Envelope, event: Event) -> None:
        """Fold one event in."""
        if isinstance(event, SessionOpened | NodeDiagnosed | StopRequested):
            self.decisive.append((envelope.node, event))
        match event:
            case SessionOpened():
                self.opened, self.opened_id = event, envelope.id
            case BaselinesMeasured():
                self.baselines = event
            case StopRequested():
                self.stop = event
            case SessionClosed():
                self.closed = event
            case ModelCalled():
                self.calls.append(event)
            case _ if envelope.node:
                self._apply_to_node(self.nodes.setdefault(envelope.node, NodeRecord(envelope.node)), envelope, event)

    def _apply_to_node(self, node: NodeRecord, envelope: Envelope, event: Event) -> None:
        node.event_ids.append(envelope.id)
        match event:
            case NodePlanned():
                node.plan = event
            case CandidateProposed():
                node.candidate = event
            case SynthesisFailed():
                node.synthesis_failure = event
            case CandidateCompiled() | CompilationFailed():
                node.compile_report = event.report
            case VerificationFailed() | CandidateProfiled() | ProfilingFailed() if event.confirmation:
                node.confirmation = event.report if isinstance(event.report, ProfileReport) else None
            case CandidateVerified() | VerificationFailed():
                node.verify_report = event.report
            case CandidateProfiled() | ProfilingFailed():
                node.profile_report = event.report
            case NodeDiagnosed() if event.confirmation:
                node.confirmation_diagnosis = event
            case NodeDiagnosed():
                node.diagnosis = event
            case ConfirmationPlanned():
                pass
            case _:
                # An event this version knows but the graph has no use for: kept in event_ids only.
                pass

    def lineage(self, name: str) -> list[NodeRecord]:
        """The node and its ancestors, nearest first."""
        out: list[NodeRecord] = []
        seen: set[str] = set()
        while name and name in self.nodes and name not in seen:
            seen.add(name)
            out.append(self.nodes[name])
            name = self.nodes[name].parent
        return out

    def children(self, name: str) -> list[NodeRecord]:
        """Nodes planned from ``name``, in order of planning."""
        return [node for node in self.nodes.values() if node.parent == name and node.name != name]

    def best(self) -> NodeRecord | None:
        """The fittest correct node; a confirmed measurement counts in place of the first one."""
        correct = [node for node in self.nodes.values() if node.fitness > 0]
        return max(correct, key=lambda node: node.fitness, default=None)
