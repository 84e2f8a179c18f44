"""A whole small session as it would travel: four nodes, one of them confirmed, two of them wrong, and a skill."""

from given import candidate, diagnosed, interval, opened, profile
from kernelswarm.schemas import (
    BaselineReport,
    BaselinesMeasured,
    BaselineStatus,
    CandidateCompiled,
    CandidateProfiled,
    CandidateVerified,
    CaseResult,
    CompilationFailed,
    CompileReport,
    ConfirmationPlanned,
    Diagnostic,
    Envelope,
    Event,
    Evidence,
    Finding,
    Intent,
    MemoryOperator,
    ModelCalled,
    NodePlanned,
    Roofline,
    SessionClosed,
    Skill,
    SkillDistilled,
    Verdict,
    VerificationFailed,
    VerifyReport,
    encode,
    seal,
)

SECOND = 1_000_000_000
BEGIN_NS = 1_700_000_000 * SECOND


class Story:
    """Says events one after the other, a second apart, each in answer to the one before it."""

    def __init__(self, session: str = "rmsnorm-a1", pool: str = "cpu") -> None:
        self.session = session
        self.pool = pool
        self.envelopes: list[Envelope] = []

    def say(self, event: Event, node: str = "", agent: str = "planner") -> Envelope:
        envelope = seal(
            event,
            session=self.session,
            pool=self.pool,
            node=node,
            cause=self.envelopes[-1].id if self.envelopes else "",
            agent=agent,
            worker=f"host.1.{agent}.1",
            at_ns=BEGIN_NS + len(self.envelopes) * SECOND,
        )
        self.envelopes.append(envelope)
        return envelope

    def open(self, **changes: object) -> None:
        roof = Roofline(floor_ms=0.4, fraction=0.2, limit="memory")
        ready = tuple(BaselineStatus(name=name, ok=True, seconds=1.0) for name in ("eager", "compile"))
        report = BaselineReport(
            statuses=ready, median_ms={"eager": 3.0, "compile": 2.0}, best="compile", roofline=roof, seconds=9.0
        )
        self.say(opened(**changes), agent="user")
        self.say(BaselinesMeasured(report=report), agent="profiler")

    def plan(self, node: str, parent: str, number: int, intent: Intent) -> None:
        self.say(
            NodePlanned(parent=parent, intent=intent, memory=MemoryOperator.inherit, number=number, draw=7), node=node
        )

    def propose(self, node: str, parents: tuple[str, ...] = ()) -> None:
        source = f"# {node}: größer, 'quoted' \\ \n\ndef kernel(x, w):\n    return x\n"
        event = candidate(source, rationale=f"why {node}", recipe={"threads": 2, "pass": "online"}, parents=parents)
        self.say(event, node=node, agent="synthesizer")

    def compile(self, node: str) -> None:
        report = CompileReport(ok=True, language="cpp", compiler="g++ 12", flags=("-O3",), seconds=0.4)
        self.say(CandidateCompiled(report=report), node=node, agent="compiler")

    def time(self, node: str, median_ms: float, *, confirmation: bool = False, **changes: object) -> None:
        case = CaseResult(shape="main", seed=1, error=1e-7, reference_error=1e-7, bound=1e-6)
        verified = VerifyReport(verdict=Verdict.correct, isolation="process", cases=(case,))
        self.say(CandidateVerified(report=verified, confirmation=confirmation), node=node, agent="verifier")
        timed = profile(median_ms, counters={"instructions": 5.0})
        self.say(CandidateProfiled(report=timed, confirmation=confirmation), node=node, agent="profiler")
        evidence = (Finding(name="roofline_fraction", value="0.5", meaning="half way"),)
        judged = diagnosed(2.0 / median_ms, confirmation=confirmation, evidence=evidence, against="eager", **changes)
        self.say(judged, node=node, agent="analyst")


def story(session: str = "rmsnorm-a1", *, close: bool = True, **changes: object) -> list[Envelope]:
    """The whole session, or all but its end."""
    history = Story(session)
    history.open(**changes)
    history.plan("n1", "", 1, Intent.draft)
    history.propose("n1")
    history.compile("n1")
    history.time("n1", 1.0)
    history.plan("n2", "n1", 2, Intent.improve)
    history.propose("n2", ("n1",))
    history.compile("n2")
    history.time("n2", 0.5)
    _fail_to_compile(history)
    _fail_to_verify(history)
    history.say(ConfirmationPlanned(rank=1), node="n2")
    history.time("n2", 0.625, confirmation=True)
    if close:
        _close(history)
    return history.envelopes


def wire(envelopes: list[Envelope], first: int = 1) -> list[tuple[int, bytes]]:
    """As the stream hands them over."""
    return [(seq, encode(envelope)) for seq, envelope in enumerate(envelopes, first)]


def _fail_to_compile(history: Story) -> None:
    history.plan("n3", "n2", 3, Intent.improve)
    called = ModelCalled(
        backend="anthropic",
        model="m-1",
        request='{"messages": []}',
        completion="def kernel(): …",
        stop_reason="end_turn",
        input_tokens=100,
        output_tokens=20,
        latency_ms=12.5,
    )
    history.say(called, node="n3", agent="synthesizer")
    history.propose("n3", ("n2",))
    diagnostics = (Diagnostic(severity="error", message="expected ';'", line=3),)
    report = CompileReport(ok=False, language="cpp", compiler="g++ 12", diagnostics=diagnostics)
    history.say(CompilationFailed(report=report), node="n3", agent="compiler")
    history.say(diagnosed(verdict=Verdict.compile_error), node="n3", agent="analyst")


def _fail_to_verify(history: Story) -> None:
    history.plan("n4", "n3", 4, Intent.repair)
    history.propose("n4", ("n3",))
    history.compile("n4")
    evidence = Evidence(message="wrong at [0, 1]", shape="main", element=(0, 1), expected="1.0", got="nan")
    report = VerifyReport(verdict=Verdict.wrong_numbers, isolation="process", evidence=evidence)
    history.say(VerificationFailed(report=report), node="n4", agent="verifier")
    history.say(diagnosed(verdict=Verdict.wrong_numbers), node="n4", agent="analyst")


def _close(history: Story) -> None:
    history.say(
        SessionClosed(
            reason="budget",
            best="n2",
            win=True,
            speedup=interval(3.2),
            against="eager",
            candidates=4,
            correct=2,
            wins=2,
            detail="3.2x over eager",
        )
    )
    skill = Skill(
        id=f"rmsnorm-{history.session}",
        title="Row reductions in one pass",
        pool="cpu",
        platform="cpu",
        operators=("aten.mean.dim", "aten.mul.Tensor"),
        dtype="float32",
        sizes=(65536, 65536, 65536),
        text="# One pass\n",
        recipes=({"threads": 2, "pass": "online"}, {"threads": 1}),
        speedup=3.2,
        evidence=(history.envelopes[-1].id,),
    )
    history.say(SkillDistilled(skill=skill), agent="distiller")
