"""A closed session, or what kept a problem from having one, as a row. Pure but for the wording of causes."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ...agents.planner.synthesis import MUCH_OF_MINUTES
from ...graph.measured import Ordinary
from ...graph.session_graph import SearchGraph
from ...schemas import REFERENCE_DIED, Interval, Pool, ProblemFacts, Verdict, VerifyReport
from ...sessions.results import SearchResult, result_of
from .benchmark import Benchmark, Measured
from .row import COMPILE_LATE, NO_DROP_IN, Outcome, Row

REFUSALS = (
    ("does not fit in memory", "memory"),
    ("was not examined within", "too slow to examine"),
    ("asks for", "another device"),
    ("is not deterministic", "not deterministic"),
    ("decides nothing", "decides nothing"),
    ("needs model weights", "needs model weights"),
    ("does not import", "does not import"),
    ("ends its process", "ends its process"),
)
"""What problem validation's sentences say, and the cause under which such problems are counted together."""

_STEPS = {
    "planned": "being written",
    "proposed": "being compiled",
    "compiled": "being verified",
    "verified": "waiting to be timed",
}
"""What a node waits for, by :attr:`.NodeRecord.state`."""

COMPILED = ("compile", "max_autotune")
EAGER_MISSING = "eager was not timed"


def row_of(row: Row, graph: SearchGraph, seconds: float, benchmark: Benchmark) -> Row:
    """``row`` of ``benchmark`` filled in from the closed session of ``graph``.

    Raises:
        ValueError: the session is still open.
    """
    result = result_of(graph, row.pool, seconds)
    row = replace(
        row,
        ended=result.reason,
        candidates=result.candidates,
        correct=result.correct,
        seconds=round(seconds, 1),
        detail=result.detail,
    )
    if result.reason == "interrupted":
        return timed_out(row, "; ".join(filter(None, (row.detail, under_way(graph)))), seconds)
    if result.reason == REFERENCE_DIED:
        return replace(row, verdict=Outcome.no_correct_candidate, cause="reference died", detail=_line(result.detail))
    if "eager" not in result.speedups and result.reason == "minutes" and _unjudged(graph):
        judged = f"{_unjudged(graph)} of {len(graph.own())} candidates were not judged yet"
        return timed_out(row, f"{judged}: {under_way(graph)}", seconds)
    if "eager" not in result.speedups:
        # Right kernels whose session could time other baselines alone lack no candidate.
        cause, detail = (EAGER_MISSING, result.detail) if result.speedups else _why_none(graph)
        return replace(row, verdict=Outcome.no_correct_candidate, cause=cause, detail=detail)
    best = graph.nodes[result.best]
    report = best.confirmation or best.profile_report
    is_late = report is not None and report.timing is not None and "compile" in report.timing.pending
    row = _measured(replace(row, verdict=Outcome.correct, node=result.best), result, is_late)
    broken = next((check for check in report.contract if check.is_essential and not check.ok), None) if report else None
    if broken is not None:
        row = replace(row, cause=f"{NO_DROP_IN}: {broken.name}")
    score = None if broken is not None else benchmark.score(_by_shape(result))
    return replace(row, score=score, own_check=_own_check(best.verify_report), **_worst(result))


def refused(row: Row, sentence: str, seconds: float) -> Row:
    """A problem that cannot be searched on the pool."""
    kind = next((kind for words, kind in REFUSALS if words in sentence), "")
    cause = f"refused: {kind}" if kind else "refused"
    return replace(row, verdict=Outcome.refused, cause=cause, detail=_line(sentence), seconds=round(seconds, 1))


def timed_out(row: Row, sentence: str, seconds: float) -> Row:
    """A problem that took too long. What its session measured was not confirmed, so it does not count."""
    detail = f"not done within {row.minutes_per_problem:g} minutes; {sentence}".rstrip("; ")
    return replace(row, verdict=Outcome.timeout, cause="timeout", detail=_line(detail), seconds=round(seconds, 1))


def with_validation(row: Row, seconds: float) -> Row:
    """``row`` saying that validation took ``seconds``, where it ran out of time and that was much of it."""
    limit_s = 60 * row.minutes_per_problem
    if row.verdict is not Outcome.timeout or not MUCH_OF_MINUTES * limit_s < seconds < limit_s:
        return row
    return replace(row, detail=f"{row.detail}; validation took {seconds:.0f} s of {limit_s:.0f}")


def under_way(graph: SearchGraph) -> str:
    """What a session still waited for: its baselines, and the step that each of its candidates was at."""
    steps: dict[str, list[str]] = {}
    for node in graph.own():
        if node.diagnosis is None:
            steps.setdefault(_STEPS.get(node.state, "being diagnosed"), []).append(node.name)
    texts = [f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} {step}" for step, names in steps.items()]
    if graph.baselines is None:
        texts.append("no baselines to time against")
    return ", ".join(texts)


def crashed(row: Row, error: BaseException, seconds: float) -> Row:
    """A problem on which something of ours broke."""
    kind = type(error).__name__
    return replace(
        row,
        verdict=Outcome.crash,
        cause=f"crash: {kind}",
        detail=_line(str(error) or kind),
        seconds=round(seconds, 1),
    )


def tf32_of(pool: Pool, facts: ProblemFacts, source: str) -> str:
    """Where fp32 products may round to TF32: in every process alike, since none of them changes torch's settings."""
    if "tf32" in source or "set_float32_matmul_precision" in source:
        return "as the file sets it"
    if pool.platform != "nvidia" or facts.dtype != "float32":
        return "none"
    return "convolutions (torch's default)"


def _measured(row: Row, result: SearchResult, is_late: bool) -> Row:
    """``is_late``: torch.compile was still being compiled when the best kernel was timed."""
    times = result.times_ms
    best = _best_compiled(result.speedups, times)
    has_none = is_late and best == "eager"
    row = replace(
        row,
        **_ordinary("ordinary", result.ordinary),
        **_ordinary("call", result.call),
        **_interval("eager", result.speedups["eager"]),
        **({} if has_none else _interval("compile", result.speedups[best])),
        compile_baseline="" if has_none else best,
        eager_ms=times["eager"],
        compile_ms=times.get("compile"),
        max_autotune_ms=times.get("max_autotune"),
        kernel_ms=times["candidate"],
        roofline_fraction=result.roofline_fraction,
    )
    return replace(row, cause=COMPILE_LATE if has_none else why_slow(row))


def _by_shape(result: SearchResult) -> list[Measured]:
    """At each timed shape, or the whole where one is timed."""
    whole = [(result.times_ms, result.roofline_fraction)]
    each = [(shape.judged.times_ms, shape.roofline_fraction) for shape in result.shapes] or whole
    return [
        Measured(
            baselines_ms=tuple(time for name, time in times.items() if name != "candidate"),
            kernel_ms=times["candidate"],
            roofline_fraction=fraction,
        )
        for times, fraction in each
    ]


def _own_check(report: VerifyReport | None) -> str:
    checks = [case.published for case in report.cases if case.published is not None] if report is not None else []
    return "" if not checks else "passed" if all(checks) else "failed"


def _worst(result: SearchResult) -> dict[str, Any]:
    """Of several timed shapes the one with the least speedup."""
    worst = min(result.shapes, key=lambda shape: shape.speedup.median, default=None)
    if worst is None:
        return {}
    interval = {"worst_speedup": worst.speedup.median, "worst_low": worst.speedup.low}
    return {"timed_shapes": len(result.shapes), "worst_shape": worst.shape, **interval}


def _best_compiled(speedups: Mapping[str, Interval], times_ms: Mapping[str, float]) -> str:
    return min((name for name in COMPILED if name in speedups), key=lambda name: times_ms[name], default="eager")


def _ordinary(name: str, timed: Ordinary | None) -> dict[str, Any]:
    """What was measured in ordinary processes, if anything was: ``ordinary`` on a processor, ``call`` elsewhere."""
    if timed is None or "eager" not in timed.speedups:
        return {}
    best = _best_compiled(timed.speedups, timed.times_ms)
    return {**_interval(f"{name}_eager", timed.speedups["eager"]), **_interval(f"{name}_compile", timed.speedups[best])}


def _interval(against: str, speedup: Interval) -> dict[str, Any]:
    return {
        f"{against}_speedup": speedup.median,
        f"{against}_low": speedup.low,
        f"{against}_high": speedup.high,
    }


def why_slow(row: Row) -> str:
    """Why a row that was measured is a miss; empty if it is none."""
    if row.counted is None or row.counted.is_win:
        return ""
    return f"{'slower than' if row.counted.high < 1.0 else 'as fast as'} {row.best_baseline}"


def _unjudged(graph: SearchGraph) -> int:
    return sum(node.diagnosis is None for node in graph.own())


def _why_none(graph: SearchGraph) -> tuple[str, str]:
    """The commonest fault of the candidates, and what the first of them with it says."""
    diagnoses = [
        diagnosis for node in graph.own() if (diagnosis := node.confirmation_diagnosis or node.diagnosis) is not None
    ]
    wrong = [fault for fault in diagnoses if fault.verdict is not Verdict.correct]
    # That nothing more was written says less than what was wrong with what was.
    faults = [fault for fault in wrong if fault.verdict is not Verdict.synthesis_failed] or wrong
    if not faults:
        return "no candidate", graph.closed.detail if graph.closed else ""
    verdict, _ = Counter(fault.verdict for fault in faults).most_common(1)[0]
    first = next(fault for fault in faults if fault.verdict is verdict)
    cause = "no candidate written" if verdict is Verdict.synthesis_failed else f"no correct candidate: {verdict}"
    return cause, _line(first.summary)


def _line(text: str) -> str:
    """The text on one line, for a cell that people read: without the traceback behind it, which names one machine's
    files. That is in the log.
    """
    return " ".join(text.partition("Traceback (most recent call last)")[0].split())
