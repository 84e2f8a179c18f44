"""Which resource limits a candidate: thresholds over what was measured, each with its reason.

The roofline is Williams, Waterman and Patterson (2009); page faults and fixed costs are outside of it, and on a CPU
they are often the larger part.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ...graph.session_graph import SearchGraph
from ...schemas import Advice, AdviceAction, Bottleneck, ProfileReport, SessionOpened
from ...schemas.timing import LEAST_LOAD

AT_FLOOR = 0.9
"""Roofline fraction above which only noise is left to win."""

BANDWIDTH = 0.6
"""Roofline fraction above which the memory system is busy with bytes that are really needed."""

OVERHEAD_MS = 0.06
"""Below this, starting threads (5 to 20 µs), the host wrapper and the allocation are a large part of the time."""

FAULT_US = 0.25
"""Cost of a minor page fault with zeroing, µs: a low estimate, so that what is claimed is at least true."""

FAULT_SHARE = 0.15
"""Share of the time in page faults that makes them worth naming."""

MOST_CORES = 1.1
"""Share of the cores up to which a candidate may have used them. More was counted beside short calls: what prepares and
checks a batch."""

PAGE = 4096
HUGE_PAGE = 2 << 20
"""Bytes; smaller outputs get none."""

LOOKUPS = ("bucketize", "searchsorted", "gather", "index", "embedding")
CACHE_LINE = 64
"""Bytes that an element costs which is looked up, at most."""
LEAST_LOOKED_UP = 1 / 8
"""Share of what is read, below which looking up limits nothing: cross entropy gathers one number of 32,000."""
TRANSCENDENTAL = ("exp", "log", "tanh", "erf", "sigmoid", "sin", "cos", "pow", "gelu", "silu", "softmax")


@dataclass(frozen=True)
class Limits:
    """What a diagnosis looks at."""

    median_ms: float
    fraction: float | None
    """Of the roofline; None if unknown, or doubted because the candidate is faster than its floor."""
    is_floor_passed: bool
    """Whether it is faster, and that is heeded (:attr:`.SessionOpened.closer_diagnoses`)."""
    floor_ms: float | None
    limit: str
    """``memory`` or ``compute``; empty if unknown."""
    page_faults: float
    """Minor page faults a call; 0 if unknown."""
    avoidable_faults: float
    """Of them, those that another file might not have."""
    cores_used: float | None
    """CPU time over wall time; None if unknown."""
    cores: int
    lookups: tuple[str, ...]
    """Operators of the problem that search or gather."""
    transcendental: bool
    outputs_bytes: int
    ipc: float | None
    """Instructions a cycle; None where the machine does not permit the counters."""
    heeds_files: bool
    """:attr:`.SessionOpened.heeds_files`."""

    @staticmethod
    def of(graph: SearchGraph, node: str, report: ProfileReport) -> "Limits":
        """Gather from the session's facts and the node's profile."""
        opened = graph.opened
        assert opened is not None and report.timing is not None
        counters = report.counters.values if report.counters else {}
        names = " ".join(opened.facts.operators)
        faults = counters.get("page_faults", 0.0)
        median = report.timing.median_ms["candidate"]
        cpu_ms = counters.get("cpu_ms")
        cycles = counters.get("cycles", 0.0)
        cores = opened.pool.threads or opened.hardware.cores
        cores_used = cpu_ms / median if cpu_ms and median > 0 else None
        if opened.cautious and cores_used is not None and cores_used > MOST_CORES * cores:
            cores_used = None
        if opened.closer_diagnoses and report.timing.largest_load >= LEAST_LOAD:
            cores_used = None  # what it left idle beside others nobody knows
        roofline = report.roofline
        is_floor_passed = opened.closer_diagnoses and roofline is not None and roofline.fraction > 1.0
        return Limits(
            median_ms=median,
            fraction=roofline.fraction if roofline and not is_floor_passed else None,
            is_floor_passed=is_floor_passed,
            floor_ms=roofline.floor_ms if roofline and not is_floor_passed else None,
            limit=roofline.limit if roofline else "",
            page_faults=faults,
            avoidable_faults=max(0.0, faults - _unavoidable_faults(opened)),
            cores_used=cores_used,
            cores=cores,
            lookups=_lookups(opened),
            transcendental=any(word in names for word in TRANSCENDENTAL),
            outputs_bytes=opened.facts.work.write_bytes,
            ipc=counters["instructions"] / cycles if cycles and "instructions" in counters else None,
            heeds_files=opened.heeds_files,
        )

    @property
    def fault_share(self) -> float:
        """Share of the time that page faults cost at least."""
        return self._share_of(self.page_faults)

    @property
    def avoidable_share(self) -> float:
        """Share of the time that those cost which another file might not have."""
        return self._share_of(self.avoidable_faults)

    def _share_of(self, faults: float) -> float:
        return faults * FAULT_US / (self.median_ms * 1e3) if self.median_ms > 0 else 0.0

    @property
    def idle_share(self) -> float:
        """Share of the cores that stand idle; 0 if unknown."""
        if self.cores_used is None or self.cores <= 1:
            return 0.0
        return max(0.0, 1.0 - self.cores_used / self.cores)


def _lookups(opened: SessionOpened) -> tuple[str, ...]:
    """Operators that search or gather, where what they look up may cost something beside all that is read."""
    names = tuple(name for name in opened.facts.operators if any(word in name for word in LOOKUPS))
    if not opened.weighs_lookups or opened.facts.graph is None:
        return names
    counts: Counter[str] = Counter()
    for node in opened.facts.graph.nodes:
        for value in node.values:
            is_known = len(value.example) == len(value.shape)
            counts[node.target] += math.prod(value.example) if is_known else opened.facts.work.read_bytes
    least = LEAST_LOOKED_UP * opened.facts.work.read_bytes / CACHE_LINE
    return tuple(name for name in names if counts[name] >= least)


def _unavoidable_faults(opened: SessionOpened) -> float:
    """What a call's new outputs cost whoever writes them: a page each, unless huge pages can be asked for."""
    written = opened.facts.work.write_bytes
    may_be_huge = written >= HUGE_PAGE and opened.hardware.huge_pages != "never"
    return 0.0 if may_be_huge or not opened.heeds_files else written / PAGE


def bottleneck(limits: Limits) -> Bottleneck:
    """The one word for it; the first that applies."""
    fraction = limits.fraction
    if fraction is not None and fraction >= AT_FLOOR:
        return Bottleneck.at_floor
    if limits.median_ms < OVERHEAD_MS:
        return Bottleneck.overhead
    if limits.avoidable_share >= FAULT_SHARE:
        return Bottleneck.memory_traffic
    if limits.idle_share >= 0.3:
        return Bottleneck.parallelism
    if limits.limit == "memory" and fraction is not None and fraction >= BANDWIDTH:
        return Bottleneck.memory_bandwidth
    if limits.lookups:
        return Bottleneck.latency
    if limits.limit == "compute" or limits.transcendental:
        return Bottleneck.compute
    return Bottleneck.memory_traffic


def advise(limits: Limits, named: Bottleneck) -> Iterator[Advice]:
    """What to try, strongest first. Several things, because a bottleneck named is not a cause proven."""
    if limits.avoidable_share >= FAULT_SHARE / 2:
        share = f"{limits.avoidable_faults:.0f} page faults a call, at least {limits.avoidable_share:.0%} of the time"
        yield Advice(action=AdviceAction.avoid_page_faults, reason=share, weight=4.0)
    yield from _BY_BOTTLENECK[named](limits)
    if limits.idle_share >= 0.2 and named is not Bottleneck.parallelism:
        yield Advice(action=AdviceAction.more_parallelism, reason=f"{limits.idle_share:.0%} of the cores idle")


def _bandwidth(limits: Limits) -> Iterator[Advice]:
    reason = f"{limits.fraction:.0%} of the copy bandwidth" if limits.fraction is not None else "memory bound"
    yield Advice(
        action=AdviceAction.stream_stores, reason=f"{reason}: stores that bypass the cache save a read", weight=2.0
    )
    yield Advice(action=AdviceAction.reduce_traffic, reason=reason)
    yield Advice(action=AdviceAction.vectorize, reason="more loads under way at once")


def _traffic(limits: Limits) -> Iterator[Advice]:
    reason = f"floor {limits.floor_ms:.3f} ms of {limits.median_ms:.3f} ms" if limits.floor_ms else "far from the floor"
    yield Advice(action=AdviceAction.reduce_traffic, reason=reason, weight=2.0)
    if limits.avoidable_faults >= 1 or not limits.heeds_files:
        reason_of_faults = f"{limits.outputs_bytes} bytes of fresh output a call"
        yield Advice(action=AdviceAction.avoid_page_faults, reason=reason_of_faults)
    yield Advice(action=AdviceAction.vectorize, reason=reason)
    yield Advice(action=AdviceAction.split_kernels, reason="a fusion may recompute or spill", weight=0.5)


def _latency(limits: Limits) -> Iterator[Advice]:
    operators = f" ({', '.join(limits.lookups)})" if limits.heeds_files else ""
    reason = f"dependent loads of a search or gather{operators}"
    yield Advice(action=AdviceAction.faster_lookup, reason=reason, weight=3.0)
    yield Advice(action=AdviceAction.vectorize, reason="gathers of several lanes hide latency")
    yield Advice(action=AdviceAction.more_parallelism, reason="finer grain balances uneven searches", weight=0.5)


def _compute(limits: Limits) -> Iterator[Advice]:
    reason = f"{limits.ipc:.2f} instructions a cycle" if limits.ipc is not None else "arithmetic outweighs the bytes"
    yield Advice(action=AdviceAction.cheaper_math, reason=reason, weight=2.0 if limits.transcendental else 1.0)
    yield Advice(action=AdviceAction.vectorize, reason=reason, weight=2.0)
    yield Advice(action=AdviceAction.reduce_traffic, reason="fewer passes also compute less")


def _parallelism(limits: Limits) -> Iterator[Advice]:
    yield Advice(
        action=AdviceAction.more_parallelism, reason=f"{limits.idle_share:.0%} of the cores stand idle", weight=3.0
    )
    yield Advice(action=AdviceAction.less_overhead, reason="coarser grain may keep threads busy", weight=0.5)


def _overhead(limits: Limits) -> Iterator[Advice]:
    reason = f"{limits.median_ms * 1e3:.0f} µs a call"
    yield Advice(action=AdviceAction.less_overhead, reason=reason, weight=3.0)
    if limits.lookups:
        yield Advice(action=AdviceAction.faster_lookup, reason=reason, weight=2.0)
    yield Advice(action=AdviceAction.vectorize, reason=reason)


def _at_floor(limits: Limits) -> Iterator[Advice]:
    yield Advice(action=AdviceAction.stream_stores, reason="near the floor: little is left", weight=0.5)


_BY_BOTTLENECK = {
    Bottleneck.memory_bandwidth: _bandwidth,
    Bottleneck.memory_traffic: _traffic,
    Bottleneck.latency: _latency,
    Bottleneck.compute: _compute,
    Bottleneck.parallelism: _parallelism,
    Bottleneck.overhead: _overhead,
    Bottleneck.at_floor: _at_floor,
}
