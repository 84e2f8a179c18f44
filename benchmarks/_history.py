"""A long history for benchmarks: sessions with the shapes and sizes of real ones, made quickly from a seed.

Bodies are made once in some hundred variants and then only completed (node, parent, hash of the source), because a
million typed events would take longer to make than to record.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kernelswarm import schemas as s
from kernelswarm.schemas import encode, event_id, sha256
from kernelswarm.store import Log

NODES = 40
VARIANTS = 300
SECOND = 1_000_000_000
BEGIN_NS = 1_700_000_000 * SECOND
BATCH = 20_000
PROBLEMS = (
    "rmsnorm",
    "softmax",
    "swiglu",
    "layernorm",
    "gelu_bias",
    "rotary",
    "mapid",
    "adamw",
    "pffn",
    "cross_entropy",
)
DEVICES = ("sm_90", "sm_100", "gfx942", "cpu avx512")
FAULTS = (s.Verdict.compile_error, s.Verdict.wrong_numbers, s.Verdict.timeout)
LIMITS = tuple(bottleneck for bottleneck in s.Bottleneck if bottleneck is not s.Bottleneck.fault)
_ENCODER = msgspec.json.Encoder()


def write_history(path: Path, events: int, *, seed: int = 0) -> int:
    """Append whole sessions to the log at ``path`` until it has at least ``events``; returns how many it has."""
    bodies = Bodies(random.Random(seed))
    number, batch = 0, []
    with Log.open(path) as log:
        first = log.last_seq() + 1
        while len(log) + len(batch) < events:
            batch += session(bodies, number)
            number += 1
            if len(batch) >= BATCH or len(log) + len(batch) >= events:
                log.append(list(enumerate(batch, first)))
                first, batch = first + len(batch), []
        return len(log)


class Bodies:
    """Encoded events in variants; ``@name@`` in them stands for what differs from node to node."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.proposed = [encode(_proposed(draw)) for _ in range(VARIANTS)]
        self.compiled = [encode(s.CandidateCompiled(report=_built(draw, ok=True))) for _ in range(VARIANTS)]
        self.refused = [encode(s.CompilationFailed(report=_built(draw, ok=False))) for _ in range(VARIANTS)]
        self.verified = [encode(s.CandidateVerified(report=_verify_report(draw))) for _ in range(VARIANTS)]
        self.wrong = [encode(s.VerificationFailed(report=_wrong(draw))) for _ in range(VARIANTS)]
        self.timed = [_timed(draw) for _ in range(VARIANTS)]
        self.faults = {verdict: encode(_faulty(verdict)) for verdict in FAULTS}
        self.called = [encode(_called(draw)) for _ in range(VARIANTS)]
        self.opened = {(p, d): encode(_opened(p, d)) for p in PROBLEMS for d in DEVICES}
        self.baselines = [encode(_baselines(draw)) for _ in range(VARIANTS)]
        self.confirm = encode(s.ConfirmationPlanned(rank=1))


def session(bodies: Bodies, number: int) -> Iterator[bytes]:
    """Wire bytes of one closed session."""
    draw = bodies.draw
    problem, device = draw.choice(PROBLEMS), draw.choice(DEVICES)
    stream = _Writer(f"{problem}-{number:05x}", device.replace("_", "-").replace(" ", "-"), number)
    modelled = number % 3 == 0
    backend = b"anthropic" if modelled else b"playbook"
    opened = (
        bodies.opened[problem, device].replace(b"@backend@", backend).replace(b"@model@", b"m-1" if modelled else b"")
    )
    yield stream.say(opened, "session.opened.v1", "", "user")
    yield stream.say(draw.choice(bodies.baselines), "baselines.measured.v1", "", "profiler")
    scores: dict[str, tuple[float, int]] = {}
    for index in range(1, NODES + 1):
        yield from _node(bodies, stream, f"n{index:03d}", index, scores, backend)
    ranked = sorted(scores, key=lambda node: scores[node][0], reverse=True)
    for node in ranked[:3]:
        yield from _confirmed(bodies, stream, node, scores)
    best = max(ranked[:3], key=lambda node: scores[node][0], default="")
    yield stream.say(encode(_closed(best, scores)), "session.closed.v1", "", "planner")
    if best and scores[best][0] > 1.05:
        yield stream.say(
            encode(_skill(problem, stream.session, device, scores[best][0])), "skill.distilled.v1", "", "distiller"
        )


def _node(
    bodies: Bodies, stream: "_Writer", node: str, index: int, scores: dict[str, tuple[float, int]], backend: bytes
) -> Iterator[bytes]:
    draw = bodies.draw
    parent = draw.choice(list(scores)) if scores and index > 4 else ""
    intent = s.Intent.improve if parent else s.Intent.draft
    advice = (s.Advice(action=draw.choice(list(s.AdviceAction)), reason="roofline 31 %"),) if parent else ()
    memory = s.MemoryOperator.inherit
    plan = s.NodePlanned(parent=parent, intent=intent, memory=memory, number=index, advice=advice, draw=index)
    yield stream.say(encode(plan), "node.planned.v1", node, "planner")
    if backend == b"anthropic":
        yield stream.say(draw.choice(bodies.called), "model.called.v1", node, "synthesizer")
    print_ = sha256(f"{stream.session}{node}" if draw.random() > 0.05 else stream.session).encode()
    source = draw.choice(bodies.proposed).replace(b"@sha@", print_).replace(b"@backend@", backend)
    source = source.replace(b'"@parent@"', f'"{parent}"'.encode() if parent else b"")
    yield stream.say(source, "candidate.proposed.v1", node, "synthesizer")
    fate = draw.random()
    if fate < 0.12:
        yield stream.say(draw.choice(bodies.refused), "candidate.compilation_failed.v1", node, "compiler")
        yield stream.say(bodies.faults[s.Verdict.compile_error], "node.diagnosed.v1", node, "analyst")
        return
    yield stream.say(draw.choice(bodies.compiled), "candidate.compiled.v1", node, "compiler")
    if fate < 0.25:
        yield stream.say(draw.choice(bodies.wrong), "candidate.verification_failed.v1", node, "verifier")
        yield stream.say(bodies.faults[s.Verdict.wrong_numbers], "node.diagnosed.v1", node, "analyst")
        return
    yield stream.say(draw.choice(bodies.verified), "candidate.verified.v1", node, "verifier")
    yield from _measured(bodies, stream, node, scores, confirmation=False)


def _measured(
    bodies: Bodies, stream: "_Writer", node: str, scores: dict[str, tuple[float, int]], *, confirmation: bool
) -> Iterator[bytes]:
    profile, diagnosis, speedup = bodies.draw.choice(bodies.timed)
    if confirmation:
        profile = profile.replace(b'"confirmation":false', b'"confirmation":true')
        diagnosis = diagnosis.replace(b'"confirmation":false', b'"confirmation":true')
    yield stream.say(profile, "candidate.profiled.v1", node, "profiler")
    yield stream.say(diagnosis, "node.diagnosed.v1", node, "analyst")
    scores[node] = speedup, len(scores)


def _confirmed(bodies: Bodies, stream: "_Writer", node: str, scores: dict[str, tuple[float, int]]) -> Iterator[bytes]:
    yield stream.say(bodies.confirm, "node.confirmation_planned.v1", node, "planner")
    again = bodies.draw.choice(bodies.verified).replace(b'"confirmation":false', b'"confirmation":true')
    yield stream.say(again, "candidate.verified.v1", node, "verifier")
    yield from _measured(bodies, stream, node, scores, confirmation=True)


class _Writer:
    def __init__(self, name: str, pool: str, number: int) -> None:
        self.session, self.pool = name, pool
        self._at = BEGIN_NS + number * 100 * SECOND
        self._cause, self._index = "", 0

    def say(self, body: bytes, tag: str, node: str, agent: str) -> bytes:
        self._at += SECOND // 3
        self._index += 1
        envelope = s.Envelope(
            id=event_id(self.session, self._cause, tag, self._index),
            session=self.session,
            pool=self.pool,
            node=node,
            cause=self._cause,
            agent=agent,
            worker=f"host{self._index % 4}.1.{agent}.1",
            at_ns=self._at,
            body=msgspec.Raw(body),
        )
        self._cause = envelope.id
        return _ENCODER.encode(envelope)


def _interval(median: float, spread: float = 0.03) -> s.Interval:
    return s.Interval(median=median, low=median * (1 - spread), high=median * (1 + spread))


def _opened(problem: str, device: str) -> s.SessionOpened:
    source = f"# {problem}\n" + "def reference(x, w):\n    return x * w\n" * 12
    x = s.InputFact(name="x", kind="tensor", shape=(2048, 4096), dtype="float32")
    meta = s.TensorMeta(shape=("s0", "s1"), dtype="float32", example=(2048, 4096), strides=("s1", 1))
    nodes = tuple(
        s.Node(name=f"mul_{i}", op="call", target="aten.mul.Tensor", args=(s.Ref(name="x"),), values=(meta,))
        for i in range(12)
    )
    facts = s.ProblemFacts(
        signature=("x", "w"),
        shapes=(s.ShapeFacts(name="main", inputs=(x, x), outputs=(x,)),),
        graph=s.Graph(nodes=nodes),
        work=s.Work(read_bytes=1 << 25, write_bytes=1 << 25, flops=1 << 26),
        dtype="float32",
        float64_oracle=True,
        operators=("aten.mean.dim", "aten.mul.Tensor", f"aten.{problem}.default"),
    )
    hardware = s.HardwareFacts(
        device=device,
        cores=16,
        isa=("avx2", "avx512f"),
        vector_bytes=64,
        l2_bytes=1 << 21,
        l3_bytes=1 << 25,
        memory_bytes=1 << 36,
        copy_gbps=100.0,
        peak_gflops=2000.0,
    )
    name = device.replace("_", "-").replace(" ", "-")
    return s.SessionOpened(
        problem=s.Problem(name=problem, format=s.ProblemFormat.function, source=source, sha256=sha256(source)),
        facts=facts,
        pool=s.Pool(name=name, platform="cpu", languages=("cpp",)),
        hardware=hardware,
        budget=NODES,
        seed=7,
        synthesizer="@backend@",
        model="@model@",
    )


def _baselines(draw: random.Random) -> s.BaselinesMeasured:
    names = ("eager", "compile", "max_autotune")
    ready = tuple(s.BaselineStatus(name=name, ok=True, seconds=draw.uniform(0, 20)) for name in names)
    times = dict(zip(names, (8.0, 4.0, 4.1), strict=True))
    roof = s.Roofline(floor_ms=1.0, fraction=0.25, limit="memory")
    return s.BaselinesMeasured(
        report=s.BaselineReport(statuses=ready, median_ms=times, best="compile", roofline=roof, seconds=25.0)
    )


def _proposed(draw: random.Random) -> s.CandidateProposed:
    lines = (
        f"    for (long i = {draw.randrange(64)}; i < n; i += {draw.choice((4, 8, 16))}) "
        f"out[i] = x[i] * {draw.random():.6f}f;"
        for _ in range(draw.randrange(30, 90))
    )
    config: dict[str, str | int | float | bool] = {
        "threads": draw.choice((1, 2, 4, 8)),
        "vector": draw.choice((4, 8, 16)),
        "pass": draw.choice(("online", "two")),
        "huge_pages": draw.random() < 0.5,
    }
    skills = (f"skill-{draw.randrange(20)}",) if draw.random() < 0.2 else ()
    return s.CandidateProposed(
        source="# @sha@\nSOURCE = r'''\n" + "\n".join(lines) + "\n'''\n\ndef kernel(x, w):\n    return x\n",
        sha256="@sha@",
        language="cpp",
        backend="@backend@",
        rationale="fuses the reduction with what follows it, so that x is read once",
        recipe=config,
        parents=("@parent@",),
        skills=skills,
    )


def _built(draw: random.Random, *, ok: bool) -> s.CompileReport:
    diagnostics = (
        ()
        if ok
        else (s.Diagnostic(severity="error", message=f"expected ';' before token {draw.randrange(9)}", line=3),)
    )
    flags = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")
    return s.CompileReport(
        ok=ok, language="cpp", compiler="g++ 13", flags=flags, diagnostics=diagnostics, seconds=draw.uniform(0.3, 2.0)
    )


def _verify_report(draw: random.Random) -> s.VerifyReport:
    cases = tuple(
        s.CaseResult(shape=shape, seed=draw.getrandbits(40), error=1e-7, reference_error=1e-7, bound=1e-6)
        for shape in ("main", "ragged") * 4
    )
    return s.VerifyReport(
        verdict=s.Verdict.correct, isolation="process+rlimits", cases=cases, seconds=draw.uniform(0.5, 3)
    )


def _wrong(draw: random.Random) -> s.VerifyReport:
    evidence = s.Evidence(
        message="wrong at [0, 1]", shape="main", element=(0, 1), expected="1.0", got=f"{draw.random()}"
    )
    return s.VerifyReport(
        verdict=s.Verdict.wrong_numbers, isolation="process+rlimits", evidence=evidence, seconds=draw.uniform(0.5, 3)
    )


def _timed(draw: random.Random) -> tuple[bytes, bytes, float]:
    speedup = draw.lognormvariate(0.2, 0.4)
    times = {"candidate": 4.0 / speedup, "eager": 8.0, "compile": 4.0, "max_autotune": 4.1}
    series = tuple(
        s.Series(name=name, samples_ns=tuple(int(ms * 1e6 * draw.gauss(1, 0.02)) for _ in range(30)), calls=4)
        for name, ms in times.items()
    )
    ratios = {name: _interval(ms / times["candidate"]) for name, ms in times.items() if name != "candidate"}
    roof = s.Roofline(floor_ms=1.0, fraction=min(1.0, speedup / 4), limit="memory")
    timing = s.Timing(series=series, speedup=ratios, best="compile", median_ms=times)
    report = s.ProfileReport(
        verdict=s.Verdict.correct, isolation="process+rlimits", timing=timing, roofline=roof, seconds=draw.uniform(1, 4)
    )
    evidence = (s.Finding(name="roofline_fraction", value="31 %", meaning="far from the floor"),)
    advice = tuple(
        s.Advice(action=action, reason="31 % of the floor") for action in draw.sample(list(s.AdviceAction), 3)
    )
    judged = s.NodeDiagnosed(
        verdict=s.Verdict.correct,
        fitness=speedup,
        bottleneck=draw.choice(LIMITS),
        summary="moves three times the bytes it has to",
        speedup=_interval(speedup),
        against="compile",
        roofline_fraction=roof.fraction,
        evidence=evidence,
        advice=advice,
    )
    return encode(s.CandidateProfiled(report=report)), encode(judged), speedup


def _faulty(verdict: s.Verdict) -> s.NodeDiagnosed:
    advice = (s.Advice(action=s.AdviceAction.repair, reason="see the evidence"),)
    return s.NodeDiagnosed(
        verdict=verdict,
        fitness=0.0,
        bottleneck=s.Bottleneck.fault,
        summary=f"{verdict}: see the evidence",
        advice=advice,
    )


def _called(draw: random.Random) -> s.ModelCalled:
    return s.ModelCalled(
        backend="anthropic",
        model="m-1",
        request='{"messages": [' + '"think about memory traffic", ' * 60 + '""]}',
        completion="def kernel(x, w):\n    return x\n" * 40,
        stop_reason="end_turn",
        input_tokens=draw.randrange(2000, 9000),
        output_tokens=draw.randrange(500, 3000),
        latency_ms=draw.uniform(2000, 20000),
    )


def _closed(best: str, scores: dict[str, tuple[float, int]]) -> s.SessionClosed:
    speedup = scores[best][0] if best else None
    return s.SessionClosed(
        reason="budget",
        best=best,
        win=bool(speedup and speedup > 1.05),
        speedup=_interval(speedup) if speedup else None,
        against="compile" if best else "",
        candidates=NODES,
        correct=len(scores),
        wins=sum(score > 1.05 for score, _ in scores.values()),
        detail="as measured",
    )


def _skill(problem: str, session: str, device: str, speedup: float) -> s.SkillDistilled:
    skill = s.Skill(
        id=f"{problem}-{sha256(session)[:12]}",
        title="Row reductions in one pass",
        pool=device.replace("_", "-").replace(" ", "-"),
        platform="cpu",
        operators=("aten.mean.dim", "aten.mul.Tensor"),
        dtype="float32",
        sizes=(1 << 25, 1 << 25, 1 << 26),
        text="# One pass\n\nRead the row once and keep it in cache.\n" * 5,
        recipes=({"threads": 2, "pass": "online"},),
        speedup=speedup,
    )
    return s.SkillDistilled(skill=skill)
