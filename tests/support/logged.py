"""A session in a log, written as the recorder would, without a search."""

from collections.abc import Iterable
from pathlib import Path

import given
from kernelswarm.schemas import (
    BaselineReport,
    BaselinesMeasured,
    BaselineStatus,
    CandidateCompiled,
    CandidateProfiled,
    CandidateVerified,
    CompilationFailed,
    CompileReport,
    Diagnostic,
    Envelope,
    Event,
    Finding,
    Intent,
    MemoryOperator,
    NodePlanned,
    Roofline,
    SessionClosed,
    Verdict,
    VerifyReport,
    encode,
)
from kernelswarm.store import Log, log_path

SESSION = "rmsnorm-7kq2m"
SOURCE = "def kernel(x, w):\n    return x  # [bold]no markup[/], :smile: no emoji\n"


def planned(node: str, number: int, parent: str = "", intent: Intent = Intent.draft) -> tuple[Event, str]:
    return NodePlanned(parent=parent, intent=intent, memory=MemoryOperator.clean_slate, number=number), node


def a_session() -> Iterable[tuple[Event, str]]:
    """Three nodes: one right, one its faster child (the best), one that the compiler refused."""
    yield given.opened(budget=3), ""
    floor = Roofline(floor_ms=0.4, fraction=0.2, limit="memory")
    statuses = (BaselineStatus(name="eager", ok=True, seconds=0.1),)
    yield (
        BaselinesMeasured(
            report=BaselineReport(statuses=statuses, median_ms={"eager": 2.0}, best="eager", roofline=floor)
        ),
        "",
    )
    built = CompileReport(ok=True, language="cpp", compiler="g++ 12")
    for number, (node, parent, ms) in enumerate((("n001", "", 1.6), ("n002", "n001", 1.0)), 1):
        yield planned(node, number, parent, Intent.improve if parent else Intent.draft)
        yield given.candidate(SOURCE, recipe={"tile": 8, "fuse": True}, rationale="one pass"), node
        yield CandidateCompiled(report=built), node
        yield CandidateVerified(report=VerifyReport(verdict=Verdict.correct, isolation="process")), node
        yield CandidateProfiled(report=given.profile(median_ms=ms)), node
        evidence = (Finding(name="roofline_fraction", value="40 %", meaning="far from the floor"),)
        yield given.diagnosed(2.0 / ms, against="eager", evidence=evidence), node
    yield planned("n003", 3)
    yield given.candidate("def kernel(x, w): return 1"), "n003"
    refused = (Diagnostic(severity="error", message="expected ';' [-W]", line=7),)
    yield (
        CompilationFailed(report=CompileReport(ok=False, language="cpp", compiler="g++ 12", diagnostics=refused)),
        "n003",
    )
    yield given.diagnosed(verdict=Verdict.compile_error, summary="line 7: expected ';' [-W]"), "n003"
    yield (
        SessionClosed(
            reason="budget",
            best="n002",
            win=True,
            speedup=given.interval(2.0),
            against="eager",
            candidates=3,
            correct=2,
            wins=2,
            detail="n002 is 2.00x as fast as eager",
        ),
        "",
    )


def write_session(home: Path, session: str = SESSION, *, events: int | None = None) -> None:
    """Record a session (its first ``events`` events) as the recorder would."""
    envelopes: list[Envelope] = []
    for index, (event, node) in enumerate(list(a_session())[:events]):
        envelopes.append(given.envelope_of(event, node=node, session=session, cause=str(index), at_ns=10**18 + index))
    with Log.open(log_path(home)) as log:
        start = log.last_seq()
        log.append([(start + number, encode(envelope)) for number, envelope in enumerate(envelopes, 1)])
