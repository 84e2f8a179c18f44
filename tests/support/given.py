"""Events and facts for tests, with sensible defaults: a test names only what it is about."""

from typing import Any

from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import (
    Advice,
    AdviceAction,
    Bottleneck,
    CandidateProposed,
    Counters,
    Envelope,
    Event,
    Graph,
    HardwareFacts,
    InputFact,
    Interval,
    NodeDiagnosed,
    NodePlanned,
    Pool,
    Problem,
    ProblemFacts,
    ProblemFormat,
    ProfileReport,
    Roofline,
    Series,
    SessionOpened,
    ShapeFacts,
    Timing,
    Verdict,
    Work,
    seal,
    sha256,
)

SOURCE = """
import torch
shapes = {"main": dict(rows=64, cols=256), "ragged": dict(rows=5, cols=33)}
def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.randn(cols, generator=generator)]
def reference(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
"""


def problem(name: str = "rmsnorm", source: str = SOURCE) -> Problem:
    return Problem(name=name, format=ProblemFormat.function, source=source, sha256=sha256(source))


def facts(**changes: Any) -> ProblemFacts:
    x = InputFact(name="x", kind="tensor", shape=(64, 256), dtype="float32")
    fields: dict[str, Any] = dict(
        signature=("x", "w"),
        shapes=(ShapeFacts(name="main", inputs=(x,), outputs=(x,)),),
        graph=Graph(nodes=()),
        work=Work(read_bytes=65536, write_bytes=65536, flops=65536),
        dtype="float32",
        float64_oracle=True,
        operators=("aten.mean.dim", "aten.mul.Tensor", "aten.rsqrt.default"),
    )
    return ProblemFacts(**(fields | changes))


def pool(**changes: Any) -> Pool:
    return Pool(**(dict(name="cpu", platform="cpu", languages=("cpp",)) | changes))


def hardware(**changes: Any) -> HardwareFacts:
    fields: dict[str, Any] = dict(
        device="test cpu",
        cores=2,
        isa=("avx2",),
        vector_bytes=32,
        l2_bytes=1 << 20,
        l3_bytes=1 << 25,
        memory_bytes=1 << 33,
        copy_gbps=10.0,
        peak_gflops=100.0,
    )
    return HardwareFacts(**(fields | changes))


def opened(**changes: Any) -> SessionOpened:
    fields: dict[str, Any] = dict(problem=problem(), facts=facts(), pool=pool(), hardware=hardware(), budget=12, seed=7)
    return SessionOpened(**(fields | changes))


def interval(median: float, spread: float = 0.02) -> Interval:
    return Interval(median=median, low=median * (1 - spread), high=median * (1 + spread))


def diagnosed(fitness: float = 1.5, verdict: Verdict = Verdict.correct, **changes: Any) -> NodeDiagnosed:
    right = verdict is Verdict.correct
    fields: dict[str, Any] = dict(
        verdict=verdict,
        fitness=fitness if right else 0.0,
        bottleneck=Bottleneck.memory_traffic if right else Bottleneck.fault,
        summary="as measured",
        speedup=interval(fitness) if right else None,
        against="compile" if right else "",
        roofline_fraction=0.5 if right else None,
        advice=(Advice(action=AdviceAction.reduce_traffic, reason="test"),),
    )
    return NodeDiagnosed(**(fields | changes))


def profile(
    median_ms: float = 1.0, baseline_ms: float = 2.0, *, counters: dict[str, float] | None = None
) -> ProfileReport:
    samples = tuple(int(median_ms * 1e6) + i for i in range(5))
    baseline = tuple(int(baseline_ms * 1e6) + i for i in range(5))
    return ProfileReport(
        verdict=Verdict.correct,
        isolation="process",
        timing=Timing(
            series=(
                Series(name="candidate", samples_ns=samples, calls=1),
                Series(name="eager", samples_ns=baseline, calls=1),
            ),
            speedup={"eager": interval(baseline_ms / median_ms)},
            best="eager",
            median_ms={"candidate": median_ms, "eager": baseline_ms},
        ),
        roofline=Roofline(floor_ms=0.4, fraction=0.4 / median_ms, limit="memory"),
        counters=Counters(source="test", values=counters) if counters else None,
    )


def against_all(candidate_ms: float, **baselines_ms: float) -> Timing:
    """A run against several baselines."""
    times = {**baselines_ms, "candidate": candidate_ms}
    return Timing(
        series=tuple(Series(name=name, samples_ns=(int(ms * 1e6),), calls=1) for name, ms in times.items()),
        speedup={name: interval(ms / candidate_ms) for name, ms in baselines_ms.items()},
        best=min(baselines_ms, key=lambda name: baselines_ms[name]),
        median_ms=times,
    )


def candidate(source: str = "def kernel(x, w): return x", **changes: Any) -> CandidateProposed:
    return CandidateProposed(
        **(dict(source=source, sha256=sha256(source), language="cpp", backend="playbook") | changes)
    )


def envelope_of(
    event: Event, *, node: str = "", cause: str = "", session: str = "s-test1", at_ns: int = 1, index: int = 0
) -> Envelope:
    return seal(
        event,
        session=session,
        pool="cpu",
        node=node,
        cause=cause,
        agent="test",
        worker="test",
        at_ns=at_ns,
        index=index,
    )


def graph_with(*events: tuple[str, Event], first: SessionOpened | None = None) -> SearchGraph:
    """The graph of a session that ``first`` opened, with events of nodes after it."""
    graph = SearchGraph("s-test1")
    for node, event in [("", first or opened()), *events]:
        graph.apply(envelope_of(event, node=node, cause=node), event)
    return graph


def actions(diagnosis: NodeDiagnosed) -> list[AdviceAction]:
    """What a diagnosis advises, in its order."""
    return [advice.action for advice in diagnosis.advice]


__all__ = [
    "SOURCE",
    "NodePlanned",
    "actions",
    "against_all",
    "candidate",
    "diagnosed",
    "envelope_of",
    "facts",
    "graph_with",
    "hardware",
    "interval",
    "opened",
    "pool",
    "problem",
    "profile",
]
