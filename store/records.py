"""What the readers return: rows of the views and what is put together from them."""

from typing import Any

from ..schemas import Counters, DeviceProfile, Interval, Schema


class SpeedupRow(Schema, frozen=True, kw_only=True):
    """Columns of both ``sessions`` and ``nodes``: the speedups of one candidate."""

    session: str
    speedup: float | None = None
    """By the judge; ``ordinary_speedup`` stands beside it where that was measured, here and in every answer."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    noisy: bool | None = None
    """Whether ``speedup`` is too noisy to tell; None where there is none."""
    against: str | None = None
    ordinary_speedup: float | None = None
    ordinary_low: float | None = None
    ordinary_high: float | None = None
    ordinary_against: str | None = None
    measure: str | None = None
    """Which number a win is on an accelerator: ``device`` or ``call``; None on a processor."""
    device_speedup: float | None = None
    device_low: float | None = None
    device_high: float | None = None
    call_speedup: float | None = None
    call_low: float | None = None
    call_high: float | None = None
    call_against: str | None = None
    over_eager: float | None = None


class SessionRow(SpeedupRow, frozen=True, kw_only=True):
    """A session as the view ``sessions`` has it (columns: ``views/sessions.sql``)."""

    problem: str
    pool: str
    status: str
    """``open`` or ``closed``."""
    kind: str | None = None
    """``search``, ``fork`` or ``evaluation``; None from a recorder that does not know of it yet."""
    at: str
    """UTC, ISO."""
    seconds: float
    candidates: int
    correct: int
    wins: int
    win: bool
    budget: int
    seed: int
    policy: str | None = None
    synthesizer: str | None = None
    model: str | None = None
    language: str | None = None
    device: str | None = None
    reason: str | None = None
    detail: str | None = None
    best: str | None = None
    """Node of the best candidate."""
    win_against: str | None = None
    target: float | None = None
    minutes: float | None = None
    origin_session: str | None = None
    origin_node: str | None = None


class NodeRow(SpeedupRow, frozen=True, kw_only=True):
    """A node as the view ``nodes`` has it (columns: ``views/nodes.sql``)."""

    node: str
    number: int
    parent: str
    intent: str
    memory: str
    state: str
    confirmed: bool
    at: str
    backend: str | None = None
    author: str | None = None
    """As users name it; of an outside author the name that it gave itself."""
    language: str | None = None
    sha256: str | None = None
    verdict: str | None = None
    fitness: float | None = None
    roofline_fraction: float | None = None
    bottleneck: str | None = None
    summary: str | None = None
    seconds: float | None = None
    background_load: float | None = None
    """Share of the cores that others kept busy while the judge timed it, of several shapes the largest; None in older
    events."""


class MeasurementRow(Schema, frozen=True, kw_only=True):
    """One implementation in one timing run (columns: ``views/measurements.sql``)."""

    series: str
    best: bool
    confirmation: bool
    ordinary: bool = False
    """Whether it was timed in ordinary processes; on an accelerator that is the call."""
    shape: str | None = None
    """The timed shape, where there are several; None for the only one, and for their mean."""
    rounds: int
    calls: int
    median_ms: float | None = None
    speedup: float | None = None
    """The candidate's, against this series."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    roofline_fraction: float | None = None
    samples_ns: tuple[int, ...] = ()


class FindingRow(Schema, frozen=True, kw_only=True):
    """One piece of a diagnosis' evidence."""

    name: str
    value: str
    meaning: str


class AdviceRow(Schema, frozen=True, kw_only=True):
    """One thing a diagnosis advises to try."""

    action: str
    reason: str
    weight: float | None = 1.0


class DiagnosisRow(Schema, frozen=True, kw_only=True):
    """One diagnosis (columns: ``views/diagnoses.sql``)."""

    verdict: str
    fitness: float
    bottleneck: str
    summary: str
    confirmation: bool
    evidence: tuple[FindingRow, ...] = ()
    advice: tuple[AdviceRow, ...] = ()


class SkillRow(Schema, frozen=True, kw_only=True):
    """A skill (columns: ``views/skills.sql``)."""

    skill: str
    session: str
    title: str
    pool: str
    platform: str
    operators: tuple[str, ...]
    dtype: str
    speedup: float
    text: str
    at: str


class SessionReport(Schema, frozen=True, kw_only=True):
    """A session whole."""

    session: SessionRow
    nodes: tuple[NodeRow, ...]
    """In the order of planning."""
    best_path: tuple[str, ...]
    """From a draft to the best node."""
    baselines_ms: dict[str, float]
    """Median by baseline's name: from the best node's latest timing run, else from the session's first look."""
    timed_shapes: int = 1
    """Where there are several, all numbers are their weighted geometric means."""


class NodeReport(Schema, frozen=True, kw_only=True):
    """A node whole."""

    node: NodeRow
    speedup: Interval | None
    """The judge's latest, with its interval, as ``tasks show`` has it; on an accelerator of the device."""
    source: str
    """Of its candidate; empty if there is none."""
    rationale: str
    recipe: dict[str, str | int | float | bool]
    measurements: tuple[MeasurementRow, ...]
    diagnoses: tuple[DiagnosisRow, ...]
    """Oldest first."""
    counters: Counters | None = None
    """What the processor counted while it was timed last."""
    device: DeviceProfile | None = None
    """What the accelerator's profilers saw when they looked last."""
    session_status: str = ""
    """``open`` or ``closed``: whether a node without a verdict waits for its next step, or will have none."""
    evidence: dict[str, Any]
    """Why it failed, as the report of the step that failed says it; empty for a candidate without a fault."""
