"""Replay: a fresh planner, analyst and distiller are fed a session's recorded events; they must say what was recorded.

Pure: no clock, no bus, no log, no device. What happened outside (completions, compilers, timings) is in the events, so
those are taken as they are; what the three said is computed anew and held against the log by id and by body.

An output is missing where an event answers it that the log does have. One that nobody answered may have been on its way
when the session ended, whatever its role said to later events: several workers of a role answer in any order. A step
that was given up (after several tries, by a process that kept dying) is an effect of the outside too.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..agents.analyst import by_model as analyst_by_model
from ..agents.analyst.diagnose import diagnose
from ..agents.consulting import settled
from ..agents.distiller import by_model as distiller_by_model
from ..agents.distiller import lesson
from ..agents.planner import by_model as planner_by_model
from ..agents.planner.inheriting import begun
from ..agents.planner.machine import decide
from ..agents.planner.state import PlannerState
from ..graph.inheritance import LoggedEvent
from ..graph.session_graph import DECISIVE, SearchGraph
from ..schemas import (
    AuthorBenched,
    Bottleneck,
    CandidateProfiled,
    ChoiceMade,
    ChoicesOffered,
    CompilationFailed,
    ConfirmationPlanned,
    Envelope,
    Event,
    KernelswarmError,
    ModelCalled,
    NodeDiagnosed,
    NodePlanned,
    ProfilingFailed,
    RoleDecided,
    Schema,
    SessionClosed,
    SessionOpened,
    SkillDistilled,
    StopRequested,
    SynthesisFailed,
    Verdict,
    VerificationFailed,
    encode,
    event_id,
    event_tag,
)
from .asking import Asking, asks_the_same
from .first_divergence import Output, departed, invented, missing

ROLES = ("planner", "analyst", "distiller")
"""Roles whose outputs follow from the log alone."""

SAYS: Mapping[type[Event], str] = {
    ChoicesOffered: "planner",
    ChoiceMade: "planner",
    NodePlanned: "planner",
    ConfirmationPlanned: "planner",
    SessionClosed: "planner",
    AuthorBenched: "planner",
    NodeDiagnosed: "analyst",
    RoleDecided: "model",
    SkillDistilled: "distiller",
    StopRequested: "planner",
}
"""Which of them says what."""

_DIAGNOSED = frozenset((CandidateProfiled, SynthesisFailed, CompilationFailed, VerificationFailed, ProfilingFailed))


class ReplayReport(Schema, frozen=True, kw_only=True):
    """What a replay came to; one that found a difference raises :class:`ReplayDivergence` instead."""

    session: str
    status: str
    """``closed``, or ``open`` if the history has no end."""
    events: int
    """Events that were fed."""
    compared: dict[str, int]
    """Outputs that were equal, by role."""
    given_up: int = 0
    """Steps of the three that were abandoned when they were recorded."""
    unknown: int = 0
    """Events whose tag this version does not know: fed to nobody."""
    prompts: int = 0
    """Questions of roles to models that a fresh one asks in the same words, to the byte."""
    prompts_changed: tuple[str, ...] = ()
    """Events with a question that this version of the program asks in other words; the answers stay as they were."""
    candidates: int = 0
    """Files that were read out of the recorded answers of models again, to the byte."""
    candidates_changed: tuple[str, ...] = ()
    """Events with a file that this version of the program reads otherwise."""
    unsaid: tuple[str, ...] = ()
    """What the fresh agents said beyond the end of the history, as sentences: what comes next."""
    until: str = ""
    """Id of the event it stopped at; empty for the end."""


@dataclass
class Replay:
    """One replay. :meth:`feed` it the history in order, then :meth:`finish`."""

    session: str
    before: Sequence[LoggedEvent] = ()
    """What a fork inherits, oldest first."""
    graph: SearchGraph = field(init=False)
    """The search as far as it was fed."""
    _planner: PlannerState = field(default_factory=PlannerState)
    _asking: dict[str, Asking] = field(default_factory=dict)
    """Steps that wait for what a model answered, by the id of the event they answer."""
    _prompts: int = 0
    _prompts_changed: list[str] = field(default_factory=list)
    _pending: dict[str, Output] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _compared: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROLES, 0))
    _given_up: int = 0
    _unknown: int = 0
    _fed: int = 0

    def __post_init__(self) -> None:
        self.graph = SearchGraph(self.session, self.before)

    def feed(self, seq: int, envelope: Envelope, event: Event | None) -> None:
        """Feed one recorded event and compare it, if it is an output.

        Args:
            seq: Its place in the log, for messages.
            envelope: As recorded.
            event: Its body; None if this version does not know the tag.

        Raises:
            ReplayDivergence: it is not what the fresh agents said, or it answers something they said and the log lacks.
        """
        if envelope.id in self._seen:
            return
        self._seen.add(envelope.id)
        self._fed += 1
        if envelope.cause in self._pending:
            raise missing(self.session, self._pending[envelope.cause], seq, envelope)
        if event is None:
            self._unknown += 1
            return
        if envelope.cause in self._asking:
            self._hear(envelope, event)
        if type(event) in SAYS and not _is_from_outside(envelope, event):
            self._compare(seq, envelope, event)
        self.graph.apply(envelope, event)
        if isinstance(event, SessionOpened):
            self._planner = begun(self.graph)
        for output in self._outputs(envelope, event):
            self._pending[output.id] = output

    def finish(self, until: str = "") -> ReplayReport:
        """The report.

        Args:
            until: Id of the event that the replay was stopped at before the end, if it was.
        """
        return ReplayReport(
            session=self.session,
            status="closed" if self.graph.closed else "open",
            events=self._fed,
            compared=dict(self._compared),
            given_up=self._given_up,
            unknown=self._unknown,
            prompts=self._prompts,
            prompts_changed=tuple(self._prompts_changed),
            unsaid=tuple(spoken(output) for output in self._pending.values()),
            until=until,
        )

    @property
    def unsaid(self) -> Sequence[Output]:
        """What the fresh agents said and the history, as far as it was fed, does not hold."""
        return tuple(self._pending.values())

    @property
    def asking(self) -> frozenset[tuple[str, str]]:
        """Steps that wait for a model, as role and the event that they answer."""
        return frozenset((asking.role, cause) for cause, asking in self._asking.items())

    def _compare(self, seq: int, envelope: Envelope, event: Event) -> None:
        output = self._pending.pop(envelope.id, None)
        if _is_given_up(event):
            self._abandon(envelope, output)
            return
        if output is None:
            raise invented(self.session, seq, envelope, self._beside(envelope))
        if output.failed or output.event != event or output.node != envelope.node or output.cause != envelope.cause:
            raise departed(self.session, seq, envelope, event, output)
        self._compared[output.role] += 1

    def _abandon(self, envelope: Envelope, output: Output | None) -> None:
        """The step that answered this cause said nothing else, then."""
        self._given_up += 1
        role = output.role if output is not None else envelope.agent
        for id in [
            id for id, pending in self._pending.items() if pending.cause == envelope.cause and pending.role == role
        ]:
            del self._pending[id]

    def _beside(self, envelope: Envelope) -> Output | None:
        """What the role said to the same event instead, if it said anything."""
        outputs = (
            output
            for output in self._pending.values()
            if output.cause == envelope.cause and output.role == envelope.agent
        )
        return next(outputs, None)

    def _outputs(self, envelope: Envelope, event: Event) -> Iterator[Output]:
        kind = type(event)
        if kind in DECISIVE:
            yield from self._sealed("planner", envelope, self._decided(envelope, event))
        elif isinstance(event, ChoicesOffered):
            consultation = planner_by_model.consultation(self.graph, event)
            self._asking[envelope.id] = Asking("planner", envelope, consultation, lambda made: [made])
        elif kind in _DIAGNOSED:
            diagnosed = self._diagnosed(envelope, event)
            if not self._asks(envelope, diagnosed, event):
                yield from self._sealed("analyst", envelope, diagnosed)
        elif isinstance(event, SessionClosed) and self.graph.opened is not None:
            taught = lesson(self.graph.opened, self.graph, self.session, event)
            skill = None if taught is None else distiller_by_model.consultation(self.graph, taught)
            if skill is not None:
                self._asking[envelope.id] = Asking("distiller", envelope, skill, lambda outcome: [outcome])
            else:
                yield from self._sealed("distiller", envelope, [] if taught is None else [(taught, envelope.node)])

    def _decided(self, envelope: Envelope, event: Event) -> "list[tuple[Event, str]] | Exception":
        try:
            return [(decision.event, decision.node) for decision in decide(self._planner, event, envelope.node)]
        except Exception as error:  # noqa: BLE001 - a live agent's step fails just so, and says so in an event
            return error

    def _diagnosed(self, envelope: Envelope, event: Event) -> "list[tuple[Event, str]] | Exception":
        try:
            return [(diagnose(self.graph, envelope.node, event), envelope.node)]
        except Exception as error:  # noqa: BLE001 - as above
            return error

    def _asks(self, cause: Envelope, diagnosed: "list[tuple[Event, str]] | Exception", event: Event) -> bool:
        """Whether the analyst asks a model first; its step then waits for the recorded answer."""
        if isinstance(diagnosed, Exception):
            return False
        ((ruled, _),) = diagnosed
        assert isinstance(ruled, NodeDiagnosed)
        consultation = analyst_by_model.consultation(self.graph, cause.node, event, ruled)
        if consultation is not None:
            self._asking[cause.id] = Asking("analyst", cause, consultation, lambda outcome: [outcome])
        return consultation is not None

    def _hear(self, envelope: Envelope, event: Event) -> None:
        """An answer of the model that a step waits for, or what the role made of it."""
        asking = self._asking[envelope.cause]
        if isinstance(event, ModelCalled) and event.role == asking.role:
            same = asks_the_same(event, asking.consultation.question)
            self._prompts += same
            self._prompts_changed += [] if same else [envelope.id]
            asking.calls.append(event)
        elif isinstance(event, RoleDecided) and event.role == asking.role:
            del self._asking[envelope.cause]
            decided, outcome = settled(asking.consultation, asking.calls, event.fault)
            replies = [(reply, asking.cause.node) for reply in (decided, *asking.replies(outcome))]
            for output in self._sealed(asking.role, asking.cause, replies):
                self._pending[output.id] = output
        elif _is_given_up(event):
            del self._asking[envelope.cause]

    def _sealed(self, role: str, cause: Envelope, result: "list[tuple[Event, str]] | Exception") -> Iterator[Output]:
        failed = ""
        if isinstance(result, Exception):
            failed = f"{type(result).__name__}: {result}"
            result = [(_given_up(role, failed), "" if role == "planner" else cause.node)]
        counts: dict[str, int] = defaultdict(int)
        for event, node in result:
            tag = event_tag(type(event))
            id = event_id(self.session, cause.id, tag, counts[tag])
            counts[tag] += 1
            yield Output(id, role, node, event, cause.id, failed)


def replay(
    session: str, history: Iterable[tuple[int, Envelope]], to: str = "", before: Sequence[LoggedEvent] = ()
) -> ReplayReport:
    """Replay a whole history, or up to the event with the id ``to``.

    Raises:
        ReplayDivergence: the first difference.
        KernelswarmError: it has no event ``to``.
    """
    running = Replay(session, before)
    for seq, envelope in history:
        running.feed(seq, envelope, envelope.event())
        if envelope.id == to:
            return running.finish(until=to)
    if to:
        raise KernelswarmError(f"session {session} has no event {to}")
    return running.finish()


def spoken(output: Output) -> str:
    """One output as a short sentence."""
    body = encode(output.event).decode()
    shown = body if len(body) <= 160 else body[:159] + "…"
    return f"{output.role}: {output.node + ' ' if output.node else ''}{shown}"


def _is_from_outside(envelope: Envelope, event: Event) -> bool:
    """Whether it follows from no event: what an author's sub-agent came to, as the author's own answers, and a stop of
    which not the planner says that nothing more is planned."""
    if isinstance(event, StopRequested):
        return envelope.agent != "planner"
    return isinstance(event, RoleDecided) and event.role not in ROLES


def _is_given_up(event: Event) -> bool:
    if isinstance(event, SessionClosed):
        return event.reason == "failed"
    return isinstance(event, NodeDiagnosed) and event.verdict is Verdict.harness_error and not event.advice


def _given_up(role: str, why: str) -> Event:
    """Stands for the give-up that a live agent says when its step raises; only its kind counts."""
    if role == "planner":
        return SessionClosed(reason="failed", detail=why)
    return NodeDiagnosed(verdict=Verdict.harness_error, fitness=0.0, bottleneck=Bottleneck.fault, summary=why)
