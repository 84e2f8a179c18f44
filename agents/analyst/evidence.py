"""The findings a diagnosis rests on, in words and numbers a person can check."""

from collections.abc import Iterator

from ...graph.session_graph import NodeRecord, SearchGraph
from ...schemas import Config, Finding, Interval, Timing
from ...schemas.timing import LEAST_LOAD
from .limits import Limits


def of_limits(limits: Limits) -> Iterator[Finding]:
    """What the counters and the roofline say."""
    if limits.fraction is not None and limits.floor_ms is not None:
        yield Finding(
            name="roofline_fraction",
            value=f"{limits.fraction:.2f}",
            meaning=f"{limits.limit} floor {limits.floor_ms:.4f} ms, the candidate takes {limits.median_ms:.4f} ms",
        )
    if limits.is_floor_passed:
        yield Finding(
            name="roofline_fraction",
            value="above 1",
            meaning="faster than the roofline's floor, which counts more than a kernel must do",
        )
    if limits.page_faults >= 1:
        own = "" if limits.avoidable_faults >= 1 or not limits.heeds_files else ", as every new output's does"
        yield Finding(
            name="page_faults",
            value=f"{limits.page_faults:.0f} a call",
            meaning=f"at least {limits.fault_share:.0%} of the time goes into mapping fresh memory{own}",
        )
    if limits.cores_used is not None:
        yield Finding(
            name="cores_used",
            value=f"{limits.cores_used:.2f} of {limits.cores}",
            meaning=f"{limits.idle_share:.0%} of the cores stand idle",
        )
    if limits.ipc is not None:
        yield Finding(
            name="instructions_per_cycle",
            value=f"{limits.ipc:.2f}",
            meaning="below 1 the cores wait, mostly for memory" if limits.ipc < 1 else "the cores are busy",
        )


def of_load(timing: Timing) -> Iterator[Finding]:
    """That others were at work while it was timed, where they were."""
    if timing.largest_load >= LEAST_LOAD:
        yield Finding(
            name="background_load",
            value=f"{timing.largest_load:.0%} of the cores",
            meaning="others kept them busy while it was timed: on a quiet machine the interval is tighter",
        )


def of_family(graph: SearchGraph, node: str, speedup: Interval, timing: Timing) -> Iterator[Finding]:
    """What the change from the parent did, tunable by tunable where a config tells."""
    record = graph.nodes.get(node)
    parent = graph.nodes.get(record.parent) if record else None
    if record is None or parent is None or parent.fitness <= 0 or record.candidate is None:
        return
    before = parent.confirmation_diagnosis or parent.diagnosis
    if before is not None and set(before.pending) > set(timing.pending):
        # The parent was not compared with what has joined since.
        speedup = timing.speedup.get(before.against, speedup)
    opened = graph.opened
    changed = ", ".join(_changes(parent, record.candidate.recipe)) or "its source"
    if opened is not None and opened.heeds_files and not (record.candidate.recipe and _config(parent)):
        changed = "its source"
    cautious = opened is not None and opened.cautious
    if cautious and (speedup.is_noise or (parent.speedup is not None and parent.speedup.is_noise)):
        meaning = f"the times do not tell whether {changed} helped"
        yield Finding(name="parent", value=f"too noisy beside {parent.name}", meaning=meaning)
        return
    fitness = speedup.median
    yield Finding(
        name="parent",
        value=f"{fitness / parent.fitness:.2f}x of {parent.name}",
        meaning=f"{changed} {'helped' if fitness > parent.fitness else 'did not help'}",
    )


def _changes(parent: NodeRecord, config: Config) -> Iterator[str]:
    before = _config(parent)
    for tunable in sorted({*before, *config}):
        if before.get(tunable) != config.get(tunable):
            yield f"{tunable} {before.get(tunable)} → {config.get(tunable)}"


def _config(record: NodeRecord) -> Config:
    """What the generator made it of; empty for a file by anybody else."""
    return record.candidate.recipe if record.candidate else {}
