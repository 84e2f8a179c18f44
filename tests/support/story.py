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
    told = Story(session)
    told.open(**changes)
    told.plan("n1", "", 1, Intent.draft)
    told.propose("n1")
    told.compile("n1")
    told.time("n1", 1.0)
    told.plan("n2", "n1", 2, Intent.improve)
    told.propose("n2", ("n1",))
    told.compile("n2")
    told.time("n2", 0.5)
    _fail_to_compile(told)
    _fail_to_verify(told)
    told.say(ConfirmationPlanned(rank=1), node="n2")
    told.time("n2", 0.625, confirmation=True)
    if close:
        _close(told)
    return told.envelopes


def wire(envelopes: list[Envelope], first: int = 1) -> list[tuple[int, bytes]]:
    """As the stream hands them over."""
    return [(seq, encode(envelope)) for seq, envelope in enumerate(envelopes, first)]


def _fail_to_compile(told: Story) -> None:
    told.plan("n3", "n2", 3, Intent.improve)
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
    told.say(called, node="n3", agent="synthesizer")
    told.propose("n3", ("n2",))
    said = (Diagnostic(severity="error", message="expected ';'", line=3),)
    report = CompileReport(ok=False, language="cpp", compiler="g++ 12", diagnostics=said)
    told.say(CompilationFailed(report=report), node="n3", agent="compiler")
    told.say(diagnosed(verdict=Verdict.compile_error), node="n3", agent="analyst")


def _fail_to_verify(told: Story) -> None:
    told.plan("n4", "n3", 4, Intent.repair)
    told.propose("n4", ("n3",))
    told.compile("n4")
    evidence = Evidence(message="wrong at [0, 1]", shape="main", element=(0, 1), expected="1.0", got="nan")
    report = VerifyReport(verdict=Verdict.wrong_numbers, isolation="process", evidence=evidence)
    told.say(VerificationFailed(report=report), node="n4", agent="verifier")
    told.say(diagnosed(verdict=Verdict.wrong_numbers), node="n4", agent="analyst")


def _close(told: Story) -> None:
    told.say(
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
        id=f"rmsnorm-{told.session}",
        title="Row reductions in one pass",
        pool="cpu",
        platform="cpu",
        operators=("aten.mean.dim", "aten.mul.Tensor"),
        dtype="float32",
        sizes=(65536, 65536, 65536),
        text="# One pass\n",
        recipes=({"threads": 2, "pass": "online"}, {"threads": 1}),
        speedup=3.2,
        evidence=(told.envelopes[-1].id,),
    )
    told.say(SkillDistilled(skill=skill), agent="distiller")
