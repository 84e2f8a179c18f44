"""What a session came to: the result of a search, and the verdict of an evaluation."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ..graph.measured import Ordinary, ShapeResult, mean_text, measured
from ..graph.session_graph import NodeRecord, SearchGraph
from ..schemas import Interval, ModelCalled, Schema, Verdict
from ..schemas.pool import BASELINE_NAMES
from .private_inputs import shown_case, without_seed, without_seeds


class Speedup(Interval, frozen=True, kw_only=True):
    """Ratio to the baseline that counts, with its interval."""

    against: str
    """Name of that baseline."""


class Numbers(Schema, frozen=True, kw_only=True):
    """How fast a candidate is, under the names that SQL has as well."""

    speedup: Speedup | None = None
    """By the judge; on an accelerator on the device."""
    noisy: bool = False
    """Whether ``speedup`` is too noisy to tell: its interval has 1 in it, and its ends are far apart."""
    ordinary_speedup: Speedup | None = None
    """The same in ordinary processes; null where that was not measured, and on an accelerator."""
    call_speedup: Speedup | None = None
    """The same on an accelerator as a call in ordinary processes; null where that was not measured."""
    measure: str = ""
    """On an accelerator which number counts: ``device``, or ``call``, which needs both. Empty on a processor."""
    ordinary: Ordinary | None = None
    """Of ordinary processes; null where that was not measured, and on an accelerator."""
    device: Ordinary | None = None
    """On an accelerator: its own time, as the judge measured it; null on a processor."""
    call: Ordinary | None = None
    """On an accelerator: the call in ordinary processes, host overhead included; null where that was not measured."""
    ordinary_missing: str = ""
    """Why ordinary processes did not time it although that was wanted, in a sentence; empty if they did."""

    @property
    def counted(self) -> Speedup | None:
        """The one that people are told first: in ordinary processes where that was measured, else by the judge; on an
        accelerator by :attr:`measure`, as device and call are never one for the other."""
        return self.call_speedup if self.measure == "call" else self.ordinary_speedup or self.speedup


class SearchResult(Numbers, frozen=True, kw_only=True):
    """What a session came to."""

    session: str
    problem: str
    pool: str
    reason: str
    """Why it ended, as in SessionClosed."""
    detail: str
    """One sentence for people."""
    win: bool
    """Whether the best candidate's confirmed interval lies above 1: on a processor in ordinary processes as well, on an
    accelerator by what :attr:`measure` names."""
    best: str = ""
    """Node of the best correct candidate; empty if there is none."""
    source: str = ""
    """The candidate as it was judged; the finished file that is written has it inside."""
    rationale: str = ""
    """What its author says of it."""
    times_ms: dict[str, float] = {}
    """Median milliseconds by name, baselines and ``candidate``, all from one interleaved run of the judge."""
    speedups: dict[str, Interval] = {}
    """The judge's, by baseline's name."""
    roofline_fraction: float | None = None
    shapes: tuple[ShapeResult, ...] = ()
    """Of a problem with several timed shapes: each of them. The other numbers are weighted geometric means then."""
    candidates: int = 0
    correct: int = 0
    wins: int = 0
    unjudged: dict[str, str] = {}
    """Candidates that had no verdict when it ended, by node: the last step of each, as ``state`` in SQL; after a step
    that failed the verdict that it gives."""
    withdrawn: tuple[str, ...] = ()
    """Nodes that waited for outside authors, of whom nobody handed one in."""
    model_cost: float | None = None
    """US dollars that models cost; null if no model was asked, or no price is known for one that was."""
    model_tokens: int = 0
    """Of their requests and answers, caches included."""
    cache_hit_rate: float | None = None
    """Share of the requests' tokens that a cache gave; null if no model was asked."""
    seconds: float = 0.0
    """From the session's opening to its close."""
    validation_seconds: float = 0.0
    """Before that: the hardware, and whether the problem can be searched; 0 where the session does not say so."""
    path: str = ""
    """Where the best kernel was written; empty if nowhere."""


class Evaluation(Numbers, frozen=True, kw_only=True):
    """A verdict on one candidate, as ``kernelswarm evaluate --json`` prints it."""

    verdict: Verdict
    correct: bool
    win: bool
    """Whether the interval's low end is above 1: on a processor in ordinary processes as well where that was measured,
    on an accelerator by what :attr:`measure` names."""
    reason: str | None
    """What is wrong, in a sentence; null if nothing is."""
    evidence: dict[str, object]
    """Cases it was compared on, or the fault: which input, which element, expected, got."""
    isolation: str
    """Isolation in force while it ran."""
    pool: str
    times_ms: dict[str, float]
    """By the judge, median milliseconds."""
    roofline_fraction: float | None
    session: str
    detail: str = ""
    """What the session came to, in a sentence."""
    shapes: tuple[ShapeResult, ...] = ()
    """As in :class:`SearchResult`. ``--json`` has it only where several shapes are timed."""
    limits: tuple[str, ...] = ()
    """Where alone it is right, as in :class:`~..schemas.VerifyReport`. ``--json`` has it only where it is limited."""

    def __repr__(self) -> str:
        verdict = self.verdict.replace("_", " ")
        reason = (self.reason or "").removeprefix(f"{verdict}: ")
        won = f"; {self.detail}" if self.correct else f": {reason}" if reason else ""
        lines = (
            f"{verdict} on pool {self.pool}{won}",
            times_line(self) if self.correct else "",
            f"session {self.session}: kernelswarm show {self.session}",
        )
        return "\n".join(" ".join(line.split()) for line in lines if line)


def times_line(result: SearchResult | Evaluation) -> str:
    """Milliseconds by name; of an accelerator both numbers, each by its name. Empty where nothing was timed."""
    mean = mean_text(len(result.shapes))
    if result.device is None:
        return _times_text(result.ordinary.times_ms if result.ordinary else result.times_ms) + mean
    numbers = {"device": result.device, "call": result.call}
    ordered = sorted(numbers.items(), key=lambda item: item[0] != result.measure)
    texts = (f"{name}: {_times_text(number.times_ms)}" for name, number in ordered if number is not None)
    return "; ".join(texts) + mean


def seconds_text(result: SearchResult) -> str:
    """How long it took, with what came before the session where that is to be seen."""
    before = f" after {result.validation_seconds:.0f} s of validation" if result.validation_seconds >= 1 else ""
    return f"{result.seconds:.0f} s{before}"


def _times_text(times: dict[str, float]) -> str:
    names = {**BASELINE_NAMES, "candidate": "kernel"}
    return ", ".join(f"{name} {times[key]:.4g} ms" for key, name in names.items() if key in times)


def result_of(graph: SearchGraph, pool: str, seconds: float, path: str = "") -> SearchResult:
    """What a closed session came to.

    Raises:
        ValueError: the session is not closed.
    """
    closed, opened = graph.closed, graph.opened
    if closed is None or opened is None:
        raise ValueError(f"session {graph.session} is still open")
    node = graph.nodes.get(closed.best, NodeRecord(""))
    profile = node.confirmation if node.confirmation and node.confirmation.timing else node.profile_report
    timing = profile.timing if profile else None
    numbers = measured(opened, profile)
    speedup = _speedup(closed.by_judge, closed.by_judge_against)
    is_ordinary = not numbers.measure and closed.judged is not None
    return SearchResult(
        session=graph.session,
        problem=opened.problem.name,
        pool=pool,
        reason=closed.reason,
        detail=without_seeds(closed.detail),
        win=closed.win,
        best=closed.best,
        source=node.candidate.source if node.candidate else "",
        rationale=node.candidate.rationale if node.candidate else "",
        speedup=speedup,
        noisy=speedup is not None and speedup.is_noise,
        ordinary_speedup=_speedup(closed.speedup, closed.against) if is_ordinary else None,
        call_speedup=_speedup(closed.call, closed.call_against),
        measure=numbers.measure,
        ordinary=numbers.ordinary,
        device=numbers.device,
        call=numbers.call,
        ordinary_missing=node.diagnosis.ordinary_missing if node.diagnosis else "",
        # Baselines are worth knowing where no kernel was timed beside them.
        times_ms=dict(timing.median_ms if timing else graph.baselines.report.median_ms if graph.baselines else {}),
        speedups=dict(timing.speedup) if timing else {},
        roofline_fraction=profile.roofline.fraction if profile and profile.roofline else None,
        shapes=numbers.shapes,
        candidates=closed.candidates,
        correct=closed.correct,
        wins=closed.wins,
        unjudged={own.name: stage(own) for own in graph.own() if own.candidate is not None and own.diagnosis is None},
        withdrawn=graph.tasks.withdrawn,
        **_spending(graph.calls),
        seconds=seconds,
        validation_seconds=opened.spent_s,
        path=path,
    )


def stage(node: NodeRecord) -> str:
    """The last step of a node without a verdict, as in :attr:`SearchResult.unjudged`."""
    report = node.profile_report or node.verify_report
    if report is not None and report.verdict is not Verdict.correct:
        return str(report.verdict)
    if report is None and node.compile_report is not None and not node.compile_report.ok:
        return str(Verdict.compile_error)
    return node.state


def _spending(calls: Sequence[ModelCalled]) -> dict[str, Any]:
    prompts = sum(call.input_tokens + call.cache_read_tokens + call.cache_write_tokens for call in calls)
    # One that broke off, or was cut off, has tokens, and is paid for.
    paid = [call for call in calls if not call.error or call.input_tokens or call.output_tokens]
    is_priced = bool(paid) and all(call.cost is not None for call in paid)
    return {
        "model_cost": sum(call.cost or 0.0 for call in paid) if is_priced else None,
        "model_tokens": prompts + sum(call.output_tokens for call in calls),
        "cache_hit_rate": sum(call.cache_read_tokens for call in calls) / prompts if prompts else None,
    }


def evaluation_of(graph: SearchGraph, pool: str) -> Evaluation:
    """The verdict of a closed session that judged one candidate.

    Raises:
        ValueError: the session is not closed, or judged nothing.
    """
    result = result_of(graph, pool, 0.0)
    node = next(iter(graph.nodes.values()), None)
    diagnosis = (node.confirmation_diagnosis or node.diagnosis) if node else None
    if node is None or diagnosis is None:
        raise ValueError(f"session {graph.session} judged nothing")
    verified, profiled = node.verify_report, node.confirmation or node.profile_report
    correct = diagnosis.verdict is Verdict.correct
    speedup = _speedup(diagnosis.speedup, diagnosis.against) if correct else None
    beside = _speedup(diagnosis.ordinary, diagnosis.ordinary_against) if correct else None
    isolations = [report.isolation for report in (profiled, verified) if report is not None and report.isolation]
    return Evaluation(
        verdict=diagnosis.verdict,
        correct=correct,
        win=correct and result.win,
        reason=None if correct else without_seeds(diagnosis.summary),
        evidence=_evidence(node, correct),
        isolation=isolations[0] if isolations else "none: it never ran",
        pool=pool,
        speedup=speedup,
        noisy=speedup is not None and speedup.is_noise,
        ordinary_speedup=None if result.measure else beside,
        call_speedup=beside if result.measure else None,
        times_ms=result.times_ms if correct else {},
        roofline_fraction=diagnosis.roofline_fraction if correct else None,
        session=graph.session,
        detail=result.detail,
        measure=result.measure,
        ordinary=result.ordinary if correct else None,
        device=result.device if correct else None,
        call=result.call if correct else None,
        ordinary_missing=diagnosis.ordinary_missing,
        shapes=result.shapes if correct else (),
        limits=verified.limits if correct and verified is not None else (),
    )


def _speedup(interval: Interval | None, against: str) -> Speedup | None:
    if interval is None:
        return None
    return Speedup(median=interval.median, low=interval.low, high=interval.high, against=against)


def _evidence(node: NodeRecord, correct: bool) -> dict[str, object]:
    if correct and node.verify_report:
        evidence: dict[str, object] = {"cases": [shown_case(case) for case in node.verify_report.cases]}
        declined = tuple(map(without_seeds, node.verify_report.declined))
        # Shapes that it refuses: who uses the kernel should know.
        return {**evidence, "declined": declined} if declined else evidence
    for report in (node.confirmation, node.profile_report, node.verify_report):
        if report is not None and report.evidence is not None:
            return dict(msgspec.to_builtins(without_seed(report.evidence)))
    if node.compile_report is not None:
        return {"diagnostics": msgspec.to_builtins(node.compile_report.diagnostics), "log": node.compile_report.log}
    return {"message": node.synthesis_failure.reason if node.synthesis_failure else "no evidence"}
