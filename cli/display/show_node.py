"""A node as text: where it came from, what was tried, how it did, why, and what was advised."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from ...graph.measured import mean_text
from ...schemas import Bottleneck
from ...store import DiagnosisRow, MeasurementRow, NodeReport
from .show_profile import counter_lines, profile_lines, profile_table
from .summary import NAMES, rank, speedup_cells
from .terminal import out, plain_table, print_wide
from .unjudged import next_step, stage_text


def print_node(report: NodeReport) -> None:
    """Print it whole, but for its source."""
    for line in _head(report):
        out.print(line)
    for title, rows in _runs(report.measurements, report.node.measure):
        out.print(f"\n[bold]{title}[/]")
        print_wide(_timings(rows))
    _print_profile(report)
    for diagnosis in report.diagnoses:
        out.print()
        for line in _diagnosis(diagnosis):
            out.print(line)
    for line in _fault(report.evidence):
        out.print(line)
    if report.source:
        look = f"kernelswarm show {report.node.session} --node {report.node.node} --source"
        out.print(f"\nlook  {look}   (--file: the finished best.py)", markup=False)


_ON_PROCESSOR = {(True, True): "in ordinary processes", (False, False): "timings", (True, False): "confirmation"}
_BY_MEASURE = {
    "device": {(True, False): "device, confirmation", (False, False): "device", (True, True): "call"},
    "call": {(True, True): "call", (True, False): "device, confirmation", (False, False): "device"},
}
"""What people call the timing runs (of a confirmation, in ordinary processes), in the order in which they are shown."""


def _runs(measurements: Sequence[MeasurementRow], measure: str | None) -> Iterator[tuple[str, list[MeasurementRow]]]:
    """The timing runs of each kind, with what people call them; what counts first."""
    kinds = _BY_MEASURE.get(measure or "", _ON_PROCESSOR)
    for (confirmation, ordinary), title in kinds.items():
        rows = [row for row in measurements if (row.confirmation, row.ordinary) == (confirmation, ordinary)]
        shapes = dict.fromkeys(row.shape for row in rows)
        mean = mean_text(sum(shape is not None for shape in shapes))
        for shape in shapes:
            # A finalist may be confirmed several times: the last run counts.
            latest = {row.series: row for row in rows if row.shape == shape}
            yield f"{title} at shape {shape}" if shape else title + mean, list(latest.values())


def _print_profile(report: NodeReport) -> None:
    """What was counted and seen of it, if anything was."""
    if report.counters is not None:
        out.print()
        for line in counter_lines(report.counters):
            out.print(line)
    if report.device is not None:
        out.print()
        for line in profile_lines(report.device):
            out.print(line)
        if report.device.kernels:
            print_wide(profile_table(report.device))


def _head(report: NodeReport) -> Iterator[str]:
    node = report.node
    origin = f"{node.intent} of {node.parent}" if node.parent else node.intent
    verdict = f": {node.verdict.replace('_', ' ')}" if node.verdict else ""
    yield f"[bold]{escape(node.node)}[/] of {escape(node.session)}  {escape(origin)}, {node.state}{escape(verdict)}"
    parts = [f"memory {node.memory}"] + [f"{node.language} by {node.author}"] * bool(node.language)
    if node.seconds is not None:
        parts.append(f"{node.seconds:.1f} s from plan to diagnosis")
    yield escape(", ".join(parts))
    if node.verdict is None:
        step, stage = next_step(node.state), stage_text(node.state)
        waits = f"it waits for {step}" if report.session_status == "open" else f"its session ended before {step}"
        yield f"next     {stage}; {waits}"
    if report.rationale:
        yield f"why      {escape(report.rationale)}"
    if report.recipe:
        yield "config   " + escape(", ".join(f"{tunable}={value}" for tunable, value in report.recipe.items()))


def _timings(rows: list[MeasurementRow]) -> Table:
    table = plain_table(
        "implementation", numbers=("ms", "speedup", "95 % interval", "roofline", "rounds x calls"), header="dim"
    )
    for row in sorted(rows, key=lambda row: rank(row.series)):
        table.add_row(
            NAMES.get(row.series, row.series) if row.series != "candidate" else "this candidate",
            "" if row.median_ms is None else f"{row.median_ms:.3f}",
            *speedup_cells(row.speedup, row.speedup_low, row.speedup_high),
            "" if row.roofline_fraction is None else f"{row.roofline_fraction:.0%}",
            f"{row.rounds} x {row.calls}" if row.rounds else "mean of the shapes",
            style="bold" if row.series == "candidate" else ("cyan" if row.best else ""),
        )
    return table


def _diagnosis(diagnosis: DiagnosisRow) -> Iterator[str]:
    again = " of the confirmation" if diagnosis.confirmation else ""
    yield f"[bold]diagnosis{again}[/]  {escape(Bottleneck(diagnosis.bottleneck).in_words)}: {escape(diagnosis.summary)}"
    for finding in diagnosis.evidence:
        yield f"  {escape(finding.name)} {escape(finding.value)}: {escape(finding.meaning)}"
    for advice in diagnosis.advice:
        yield f"  try {escape(advice.action.replace('_', ' '))}: {escape(advice.reason)}"


def _fault(report: dict[str, Any]) -> Iterator[str]:
    """What the step that failed reported, as far as people want to read it."""
    evidence = report.get("evidence") or {}
    facts = [f"{key} {evidence[key]}" for key in ("shape", "seed", "output", "element", "expected", "got")
             if evidence.get(key) not in (None, "", [])]  # fmt: skip
    message = report.get("reason") or evidence.get("message")
    if message:
        yield f"\n[bold]fault[/]  {escape(str(message))}"
    if facts:
        yield "  " + escape(", ".join(facts))
    for diagnostic in report.get("diagnostics") or []:
        yield escape(f"  line {diagnostic.get('line', 0)}: {diagnostic.get('severity')}: {diagnostic.get('message')}")
    log = evidence.get("log") or ("" if report.get("diagnostics") else report.get("log", ""))
    if log:
        yield "[dim]" + escape("\n".join(f"  {line}" for line in log.rstrip().splitlines())) + "[/]"
