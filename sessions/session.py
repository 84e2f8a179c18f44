"""A session from the outside: how it is opened, stopped and read."""

import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..agents.planner.policies import POLICIES
from ..agents.synthesizer.authors import parse_authors, spelled
from ..agents.synthesizer.backend import GIVEN
from ..agents.synthesizer.role_models import parse_role_models
from ..bus import Bus
from ..graph.measured import Ordinary, ShapeResult, measured
from ..graph.session_graph import NodeRecord, SearchGraph
from ..schemas import (
    AuthorShare,
    Envelope,
    Event,
    HardwareFacts,
    InputError,
    Interval,
    ModelCalled,
    Origin,
    Pool,
    Problem,
    ProblemFacts,
    RoleModel,
    Schema,
    SeedKernel,
    SessionOpened,
    Skill,
    StopRequested,
    Verdict,
    seal,
)

AGAINST = ("best", "compile", "eager")
"""What a win may be measured against."""

MEASURES = ("device", "call")
"""Which of an accelerator's two numbers a win may be; on a processor they are one."""

CONFIRMATIONS = 3
"""How often a finalist is timed, at most, while its interval leaves open whether it is a win."""

INJECT = 0.2
"""Share of the expansions that a seed takes part in: some, because reuse also anchors a search (docs/seeding.md)."""

HOPELESS_BELOW = 0.9
"""A speedup whose interval ends below this will not reach 1 when it is measured again."""
FAILURES_ALIKE = 3
"""Syntheses in a row that fail for one reason, after which a search stops: a fourth would fail as well."""

SUFFIX_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without letters that are read as digits: session ids are typed by people."""


@dataclass(frozen=True)
class SearchOptions:
    """How to search. Every field travels in the session's first event."""

    budget: int = 40
    minutes: float | None = None
    target: float | None = None
    against: str = "best"
    """What a win, the target and the search's fitness are measured against: one of :data:`AGAINST`."""
    measure: str = "device"
    """Which of an accelerator's two numbers a win is: one of :data:`MEASURES`. On a processor they are one."""
    confirmations: int = CONFIRMATIONS
    seed: int = 0
    policy: str = "greedy"
    policy_options: dict[str, int | float | str] = field(default_factory=dict)
    synthesizer: str = "playbook"
    """Who writes candidates: one author, or several with shares (:func:`.authors.parse_authors`)."""
    model: str = ""
    """Of the author that asks one, or ``author=model`` with commas between them; ``analyst=model``, ``planner=model``
    and ``distiller=model`` let these roles ask one."""
    base_url: str = ""
    """Address of a model's server; empty: as the environment says."""
    max_cost: float | None = None
    """US dollars that models may cost; None: no limit."""
    max_tokens: int | None = None
    """Tokens that models may use, requests and answers together; None: no limit."""
    language: str = ""
    """What candidates are written in; empty: what the pool prefers."""
    candidates: tuple[str, ...] = ()
    """Candidate files to judge, for the synthesizer ``given``."""
    seed_from: tuple[str, ...] = ()
    """Sessions whose kernels seed the search; ``auto`` stands for whatever is alike in the log."""
    inject: float = INJECT
    """Share of the expansions that a seed takes part in, where there are seeds."""

    @property
    def is_evaluation(self) -> bool:
        """Whether it only judges one file that somebody handed in: of several there would be something to learn."""
        return self.synthesizer == GIVEN and len(self.candidates) == 1

    @property
    def authors(self) -> tuple[AuthorShare, ...]:
        """Who writes candidates.

        Raises:
            InputError: there is no such author, or a share, a model or an address fits none.
        """
        return parse_authors(self.synthesizer, self.model, self.base_url)

    @property
    def roles(self) -> tuple[RoleModel, ...]:
        """Roles that ask a model.

        Raises:
            InputError: a role is named twice, or without a model.
        """
        return () if self.is_evaluation else parse_role_models(self.model, self.authors, self.base_url)

    def check(self) -> None:
        """Refuse what cannot be searched with.

        Raises:
            InputError: a value is out of range; the sentence names it.
        """
        if self.budget < 1:
            raise InputError(f"budget {self.budget}: a search needs at least 1 candidate")
        # The log keeps both as 64 bits; what it cannot hold it would read back as nothing.
        for name, value in (("budget", self.budget), ("seed", self.seed)):
            if not -(2**63) <= value < 2**63:
                raise InputError(f"{name} {value}: give a number that 64 bits hold")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise InputError(f"minutes {self.minutes:g}: give a time above 0, or none for no limit")
        if self.target is not None and not 0 < self.target < math.inf:
            raise InputError(f"target {self.target:g}: a speedup is above 0; 2.0 means twice as fast")
        if self.against not in AGAINST:
            raise InputError(f"against {self.against!r}: a win is measured against {', '.join(AGAINST)}")
        if self.measure not in MEASURES:
            raise InputError(f"measure {self.measure!r}: a win on an accelerator is by its {' or its '.join(MEASURES)}")
        if not 0 <= self.inject <= 1:
            raise InputError(f"inject {self.inject:g}: it is a share of the expansions, from 0 to 1")
        if self.max_cost is not None and not 0 < self.max_cost < math.inf:
            raise InputError(f"max cost {self.max_cost:g}: give US dollars above 0, or none for no limit")
        if self.max_tokens is not None and not 0 < self.max_tokens < 2**63:
            raise InputError(f"max tokens {self.max_tokens}: give a number above 0, or none for no limit")
        assert self.authors, "an empty list is refused as bad input"
        assert self.roles is not None, "a role without a model is refused as bad input"
        if self.policy not in POLICIES:
            raise InputError(f"unknown policy {self.policy!r}: choose one of {', '.join(sorted(POLICIES))}")

    def check_pool(self, pool: Pool) -> None:
        """Refuse what cannot be searched with on ``pool``.

        Raises:
            InputError: candidates are not timed there against what a win is to be measured against.
        """
        if self.against != "best" and self.against not in pool.baselines:
            raise InputError(
                f"against {self.against!r}: pool {pool.name} times candidates against {', '.join(pool.baselines)} only"
            )


class SearchResult(Schema, frozen=True, kw_only=True):
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
    measure: str = ""
    """On an accelerator which number counts: ``device``, or ``call``, which needs both. Empty on a processor."""
    best: str = ""
    """Node of the best correct candidate; empty if there is none."""
    source: str = ""
    """The candidate as it was judged; the finished file that is written has it inside."""
    speedup: Interval | None = None
    """The one that counts: of ordinary processes where that was measured, else the judge's; on an accelerator by
    :attr:`measure`."""
    against: str = ""
    """Name of the baseline that it is measured against."""
    ordinary: Ordinary | None = None
    """Of ordinary processes; null where that was not measured, and on an accelerator."""
    device: Ordinary | None = None
    """On an accelerator: its own time, as the judge measured it; null on a processor."""
    call: Ordinary | None = None
    """On an accelerator: the call in ordinary processes, host overhead included; null where that was not measured."""
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
    model_cost: float | None = None
    """US dollars that models cost; null if no model was asked, or no price is known for one that was."""
    model_tokens: int = 0
    """Of their requests and answers, caches included."""
    cache_hit_rate: float | None = None
    """Share of the requests' tokens that a cache gave; null if no model was asked."""
    seconds: float = 0.0
    """From the session's opening to its close."""
    path: str = ""
    """Where the best kernel was written; empty if nowhere."""


class Speedup(Schema, frozen=True, kw_only=True):
    """Ratio to the baseline that counts, with its interval."""

    median: float
    low: float
    high: float
    against: str
    """Name of that baseline."""


class Evaluation(Schema, frozen=True, kw_only=True):
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
    speedup: Speedup | None
    """The one that counts: of ordinary processes where that was measured, else the judge's; on an accelerator by
    :attr:`measure`."""
    times_ms: dict[str, float]
    """By the judge, median milliseconds."""
    roofline_fraction: float | None
    session: str
    detail: str = ""
    """What the session came to, in a sentence."""
    judged: Speedup | None = None
    """The judge's speedup, where ``speedup`` is that of ordinary processes."""
    measure: str = ""
    """As in :class:`SearchResult`, and so are the next three."""
    ordinary: Ordinary | None = None
    device: Ordinary | None = None
    call: Ordinary | None = None
    ordinary_missing: str = ""
    """Why it was not measured although it was wanted; one sentence."""
    shapes: tuple[ShapeResult, ...] = ()
    """As in :class:`SearchResult`. ``--json`` has it only where several shapes are timed."""
    limits: tuple[str, ...] = ()
    """Where alone it is right, as in :class:`~..schemas.VerifyReport`."""


def new_session_id(problem: str) -> str:
    """A short readable id: the problem's name and five random letters."""
    return f"{problem[:32]}-{''.join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))}"


async def open_session(
    bus: Bus,
    session: str,
    problem: Problem,
    facts: ProblemFacts,
    pool: Pool,
    hardware: HardwareFacts,
    options: SearchOptions,
    *,
    skills: Sequence[Skill] = (),
    origin: Origin | None = None,
    seed_kernels: Sequence[SeedKernel] = (),
    version: str = "",
) -> tuple[int, Envelope]:
    """Publish the session's first event; its stream sequence and envelope."""
    event = SessionOpened(
        problem=problem,
        facts=facts,
        pool=pool,
        hardware=hardware,
        budget=options.budget,
        seed=options.seed,
        policy=options.policy,
        policy_options=options.policy_options | ({"inject": options.inject} if seed_kernels else {}),
        minutes=options.minutes,
        target=options.target,
        against=options.against,
        measure=options.measure,
        confirmations=options.confirmations,
        synthesizer=spelled(options.authors),
        model=options.model,
        authors=options.authors,
        roles=options.roles,
        base_url=options.base_url,
        max_cost=options.max_cost,
        max_tokens=options.max_tokens,
        language=options.language or pool.languages[0],
        origin=origin,
        seeds=tuple(dict.fromkeys(kernel.session for kernel in seed_kernels)),
        seed_kernels=tuple(seed_kernels),
        skills=tuple(skills),
        candidates=options.candidates,
        evaluation=options.is_evaluation,
        failures_alike=FAILURES_ALIKE,
        # The one candidate of an evaluation is timed as a user would, whatever came of it.
        hopeless_below=0.0 if options.is_evaluation else HOPELESS_BELOW,
        version=version,
    )
    envelope = said_by_user(event, session, pool.name)
    return await bus.publish(envelope), envelope


async def request_stop(bus: Bus, session: str, pool: str, opened_id: str, reason: str) -> None:
    """Ask a session to end: ``minutes`` lets it confirm its finalists, ``interrupted`` ends it at once."""
    await bus.publish(said_by_user(StopRequested(reason=reason), session, pool, cause=f"{opened_id}/{reason}"))


def said_by_user(event: Event, session: str, pool: str, cause: str = "") -> Envelope:
    """An event that comes from outside the ring."""
    return seal(
        event, session=session, pool=pool, node="", cause=cause, agent="user", worker="user", at_ns=time.time_ns()
    )


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
    return SearchResult(
        session=graph.session,
        problem=opened.problem.name,
        pool=pool,
        reason=closed.reason,
        detail=closed.detail,
        win=closed.win,
        best=closed.best,
        source=node.candidate.source if node.candidate else "",
        speedup=closed.call if numbers.measure == "call" else closed.speedup,
        against=closed.against,
        measure=numbers.measure,
        ordinary=numbers.ordinary,
        device=numbers.device,
        call=numbers.call,
        # Baselines are worth knowing where no kernel was timed beside them.
        times_ms=dict(timing.median_ms if timing else graph.baselines.report.median_ms if graph.baselines else {}),
        speedups=dict(timing.speedup) if timing else {},
        roofline_fraction=profile.roofline.fraction if profile and profile.roofline else None,
        shapes=numbers.shapes,
        candidates=closed.candidates,
        correct=closed.correct,
        wins=closed.wins,
        **_spending(graph.calls),
        seconds=seconds,
        path=path,
    )


def _spending(calls: Sequence[ModelCalled]) -> dict[str, Any]:
    prompts = sum(call.input_tokens + call.cache_read_tokens + call.cache_write_tokens for call in calls)
    answered = [call for call in calls if not call.error]
    is_priced = bool(answered) and all(call.cost is not None for call in answered)
    return {
        "model_cost": sum(call.cost or 0.0 for call in answered) if is_priced else None,
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
    judged, ordinary = (
        _speedup(diagnosis.speedup, diagnosis.against),
        _speedup(diagnosis.ordinary, diagnosis.ordinary_against),
    )
    if graph.opened is not None and graph.opened.counts_device_alone:
        ordinary = None
    isolations = [report.isolation for report in (profiled, verified) if report is not None and report.isolation]
    return Evaluation(
        verdict=diagnosis.verdict,
        correct=correct,
        win=correct and result.win,
        reason=None if correct else diagnosis.summary,
        evidence=_evidence(node, correct),
        isolation=isolations[0] if isolations else "none: it never ran",
        pool=pool,
        speedup=_counted(judged, ordinary, result.measure) if correct else None,
        times_ms=result.times_ms if correct else {},
        roofline_fraction=diagnosis.roofline_fraction if correct else None,
        session=graph.session,
        detail=result.detail,
        judged=judged if correct and ordinary else None,
        measure=result.measure,
        ordinary=result.ordinary if correct else None,
        device=result.device if correct else None,
        call=result.call if correct else None,
        ordinary_missing=diagnosis.ordinary_missing,
        shapes=result.shapes if correct else (),
        limits=verified.limits if correct and verified is not None else (),
    )


def _counted(judged: Speedup | None, ordinary: Speedup | None, measure: str) -> Speedup | None:
    """Device and call are never one for the other."""
    return ordinary if measure == "call" else ordinary or judged


def _speedup(interval: Interval | None, against: str) -> Speedup | None:
    if interval is None:
        return None
    return Speedup(median=interval.median, low=interval.low, high=interval.high, against=against)


def _evidence(node: NodeRecord, correct: bool) -> dict[str, object]:
    if correct and node.verify_report:
        evidence = {"cases": msgspec.to_builtins(node.verify_report.cases)}
        # Shapes that it refuses: who uses the kernel should know.
        return {**evidence, "declined": node.verify_report.declined} if node.verify_report.declined else evidence
    for report in (node.confirmation, node.profile_report, node.verify_report):
        if report is not None and report.evidence is not None:
            return dict(msgspec.to_builtins(report.evidence))
    if node.compile_report is not None:
        return {"diagnostics": msgspec.to_builtins(node.compile_report.diagnostics), "log": node.compile_report.log}
    return {"message": node.synthesis_failure.reason if node.synthesis_failure else "no evidence"}
