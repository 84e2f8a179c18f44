"""The finished file of a session's candidate (best.py), made from the log alone: the same events give the same text."""

import datetime
import textwrap
from collections.abc import Iterator

from ..graph.nodes import NodeRecord
from ..graph.session_graph import SearchGraph
from ..hardware.dropin import finish
from ..hardware.dropin.finishing import WIDTH
from ..schemas import (
    HardwareFacts,
    InputError,
    Interval,
    ProfileReport,
    SessionOpened,
    Timing,
    Verdict,
    VerifyReport,
    limits_text,
)
from ..schemas.pool import BASELINE_NAMES
from .private_inputs import without_seeds


def finished_file(graph: SearchGraph, node: str) -> str:
    """The text of best.py for a correct candidate: the operator, the kernel, and a header that says what it beats.

    Raises:
        InputError: the node has no candidate that was found correct.
    """
    opened, record = graph.opened, graph.nodes.get(node)
    if opened is None or record is None or record.candidate is None or not _is_correct(record):
        raise InputError(f"node {node} of session {graph.session} has no correct candidate: there is no finished file")
    return finish(
        opened.problem,
        opened.facts,
        record.candidate.source,
        record.verify_report,
        header=header(graph, opened, record),
    )


def header(graph: SearchGraph, opened: SessionOpened, record: NodeRecord) -> str:
    """What the file is, and what it beats by how much, as lines of plain text."""
    report = record.confirmation or record.profile_report
    lines = [
        f"{opened.problem.name}: a drop-in kernel for the operator, with the operator itself to fall back on.",
        "",
        *_verdict(graph, record.name),
        *_measured(report, opened, confirmed=record.confirmation is not None),
        *_unlike_the_reference(report),
        *_limits(record.verify_report),
        "",
        f"Made by kernelswarm {opened.version or '(version unknown)'} in session {graph.session}, node {record.name}, "
        f"opened on {_date(graph.opened_ns)} (UTC).",
        f"Measured on pool {opened.pool.name}: {_machine(opened.hardware)}.",
    ]
    return "\n".join(lines) + "\n"


def _verdict(graph: SearchGraph, node: str) -> Iterator[str]:
    """Whether it is a win, where the session has said so of this node."""
    if graph.closed is not None and graph.closed.best == node:
        detail = without_seeds(graph.closed.detail)
        text = f"A win: {detail}." if graph.closed.win else f"{detail[:1].upper()}{detail[1:]}."
        yield from textwrap.wrap(text, WIDTH)


def _is_correct(record: NodeRecord) -> bool:
    diagnosis = record.confirmation_diagnosis or record.diagnosis
    return diagnosis is not None and diagnosis.verdict is Verdict.correct


def _measured(report: ProfileReport | None, opened: SessionOpened, *, confirmed: bool) -> Iterator[str]:
    if report is not None and not opened.is_on_processor:
        yield from _on_accelerator(report, opened, confirmed=confirmed)
        return
    if report is not None and report.ordinary is not None:
        yield "In ordinary processes it is"
        yield from _compared(report.ordinary)
    elif report is not None and report.ordinary_missing:
        yield f"It was not timed in ordinary processes: {report.ordinary_missing}"
    if report is not None and report.timing is not None:
        once = "" if confirmed else ", timed once and not confirmed"
        yield f"By the judge (interleaved benchmark{once}) it is"
        yield from _compared(report.timing)


def _on_accelerator(report: ProfileReport, opened: SessionOpened, *, confirmed: bool) -> Iterator[str]:
    """Device and call, the one first that makes a win."""
    once = "" if confirmed else ", timed once and not confirmed"
    numbers = {
        "device": (report.timing, f"On the device (its own time, without the host's{once}) it is"),
        "call": (report.ordinary, "As a call (in an ordinary process, host overhead included) it is"),
    }
    for name in sorted(numbers, key=lambda name: name != opened.measure):
        timing, line = numbers[name]
        if timing is not None:
            yield line
            yield from _compared(timing)
    if report.ordinary_missing:
        yield f"It was not timed as a call: {report.ordinary_missing}"
    counted = "its time on the device" if opened.counts_device_alone else "the call, and the device as well"
    yield f"What makes it a win or none is {counted}."


def _unlike_the_reference(report: ProfileReport | None) -> Iterator[str]:
    """A line for each property of a drop-in that it lacks."""
    for contract_property in report.contract if report is not None else ():
        if not contract_property.ok:
            yield f"Unlike the reference in one way ({contract_property.name}): {contract_property.detail}"


def _limits(verified: VerifyReport | None) -> Iterator[str]:
    if verified is not None and verified.limits:
        text = limits_text(verified.limits)
        yield f"{text[0].upper()}{text[1:]}."


def _compared(timing: Timing) -> Iterator[str]:
    """A line for each baseline: how much faster it is, or plainly that it is not."""
    own = timing.median_ms.get("candidate")
    for name, speedup in timing.speedup.items():
        other = timing.median_ms.get(name)
        word = ", not" if speedup.is_win else " beside"
        times = f"; {own:.4g} ms{word} {other:.4g} ms" if own and other else ""
        # Ratios are taken round by round.
        if own and other and not speedup.low <= other / own <= speedup.high:
            times += " by the medians of a run that was too noisy for them"
        yield f"- {_ratio(speedup, BASELINE_NAMES.get(name, name))}{times}"
    if timing.shapes:
        yield f"These are weighted geometric means over {len(timing.shapes)} shapes. Against the best of each:"
    for shape in timing.shapes:
        name = shape.timing.best
        ratio = _ratio(shape.timing.speedup[name], BASELINE_NAMES.get(name, name))
        yield f"- {shape.shape} (weight {shape.weight:g}): {ratio}"


def _ratio(speedup: Interval, baseline: str) -> str:
    if speedup.is_win:
        return f"faster than {baseline}: {speedup}"
    return (
        f"slower than {baseline}: {speedup}"
        if speedup.high < 1.0
        else f"not shown to be faster than {baseline}: {speedup.in_words}"
    )


def _machine(hardware: HardwareFacts) -> str:
    compiler = hardware.compilers[:1] if not hardware.accelerators else ()
    versions = [f"torch {hardware.torch}"] * bool(hardware.torch)
    versions += [*compiler, *(f"{name} {version}" for name, version in sorted(hardware.versions.items()))]
    return ", ".join([hardware.device, f"{hardware.cores} cores", *versions])


def _date(at_ns: int) -> str:
    return datetime.datetime.fromtimestamp(at_ns // 10**9, datetime.UTC).date().isoformat()
