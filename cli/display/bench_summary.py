"""What a run of a benchmark came to, as tables."""

from rich.markup import escape
from rich.table import Table

from ...bench.runs import FastP, Misses, Report
from ...bench.runs.markdown import markdown_path
from ...bench.runs.score import Mean
from .terminal import out, plain_table, print_wide

AGAINST = {
    "ordinary_best": "best baseline, ordinary",
    "ordinary_eager": "eager, ordinary",
    "ordinary_compile": "best compile, ordinary",
    "best": "best baseline",
    "eager": "eager",
    "compile": "best compile",
    "call_best": "best baseline, call",
    "call_eager": "eager, call",
    "call_compile": "best compile, call",
}

MOST_NAMES = 4
"""Problems of one cause that are named; the CSV has them all."""


def print_report(report: Report) -> None:
    """Print fast_p, the misses by cause, and where the rows are."""
    name = " ".join(filter(None, (report.benchmark, report.label)))
    title = f"{name} on pool {report.pool}, {report.done} of {report.problems} problems"
    out.print(f"[bold]{escape(title)}[/]{escape(_precision(report))}")
    if report.done < report.problems:
        out.print(f"of the {report.done} that are done; {report.problems - report.done} left", style="yellow")
    if report.done:
        print_wide(_scores(report.fast_p, report.geometric_mean))
    if report.score is not None:
        out.print(f"{report.score_name} {report.score:.3f}, a miss as 0", markup=False)
    if report.misses:
        print_wide(_misses(report.misses))
    out.print(f"rows     {report.path}", markup=False)
    out.print(f"table    {markdown_path(report)}", markup=False)
    if sessions := [row for row in report.rows if row.node]:
        out.print(f"kernel   kernelswarm show {sessions[0].session} --node {sessions[0].node} --source", markup=False)


def _precision(report: Report) -> str:
    """Which precisions were matched, if any problem got so far."""
    precisions = sorted({row.precision for row in report.rows if row.precision})
    return f", at matched precision ({', '.join(precisions)})" if precisions else ""


def _scores(scores: tuple[FastP, ...], means: tuple[Mean, ...]) -> Table:
    thresholds = [f"p = {p:g}" for p in sorted({score.p for score in scores})]
    table = plain_table("fast_p over", numbers=(*thresholds, "geometric mean"))
    by_against = {mean.against: f"{mean.value:.2f}x" for mean in means}
    for against, name in AGAINST.items():
        own = sorted((score for score in scores if score.against == against), key=lambda score: score.p)
        if not own:
            continue
        table.add_row(name, *(f"{score.share:.2f} ({score.count})" for score in own), by_against[against], style="bold")
        table.add_row("  whole interval", *(f"{score.sure_share:.2f} ({score.surely})" for score in own))
    return table


def _misses(misses: tuple[Misses, ...]) -> Table:
    table = plain_table("misses (no interval above 1 over the best baseline)", numbers=("",))
    table.add_column("")
    for miss in misses:
        more = len(miss.problems) - MOST_NAMES
        names = ", ".join(miss.problems[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        table.add_row(escape(miss.cause), str(len(miss.problems)), escape(names))
    return table
