"""The report as a Markdown page: a line for each problem, and the misses by cause."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ...schemas import InputError
from .report import Report
from .row import Row

PLACE_NAMES = {"ordinary_": ", ordinary processes", "": "", "call_": ", call"}

BASELINE_NAMES = {"best": "the best baseline", "eager": "eager", "compile": "the best compile"}


def write_markdown(report: Report) -> None:
    """Write the page beside the CSV file.

    Raises:
        InputError: it cannot be written.
    """
    path = markdown_path(report)
    try:
        path.write_text(markdown(report), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another file with --out") from error


def markdown_path(report: Report) -> Path:
    """Where the page lies."""
    return Path(report.path).with_suffix(".md")


def markdown(report: Report) -> str:
    """The page's text."""
    return "\n\n".join(filter(None, (_title(report), _means(report), _misses(report), _rows(report)))) + "\n"


def against_name(against: str) -> str:
    """One of :data:`.row.AGAINST` for people."""
    place, _, baseline = against.rpartition("_")
    return BASELINE_NAMES[baseline] + PLACE_NAMES[f"{place}_" if place else ""]


def _title(report: Report) -> str:
    heading = " ".join(filter(None, (report.benchmark, report.label)))
    devices = ", ".join(sorted({row.device for row in report.rows if row.device}))
    versions = "; ".join(sorted({row.versions for row in report.rows if row.versions}))
    lines = [f"{report.done} of {report.problems} problems are done.", f"Device: {devices}.", f"Versions: {versions}."]
    return f"# {heading} on pool {report.pool}\n\n" + "\n".join(lines[: 3 if report.rows else 1])


def _means(report: Report) -> str:
    if not report.rows:
        return ""
    means = {mean.against: mean.value for mean in report.geometric_mean}
    by_against = {score.against: score for score in report.fast_p if score.p == 1.0}
    lines = [
        [against_name(name), f"{value:.2f}x", str(by_against[name].surely), str(by_against[name].count)]
        for name, value in means.items()
    ]
    own = f"\n\n{report.score_name}: {report.score:.3f}" if report.score is not None else ""
    return _table(("speedup over", "geometric mean", "interval above 1", "median above 1"), lines) + own


def _misses(report: Report) -> str:
    if not report.misses:
        return ""
    lines = [[miss.cause, str(len(miss.problems)), ", ".join(miss.problems)] for miss in report.misses]
    return _table(("miss", "problems", "which"), lines)


def _rows(report: Report) -> str:
    times = ("eager ms", "compile ms", "max-autotune ms", "ours ms")
    own = [report.score_name] if report.score_name else []
    return _table(
        ("problem", "verdict", *times, "over the best", "roofline", *own, "miss"),
        [_line(row, scored=bool(own)) for row in report.rows],
    )


def _line(row: Row, *, scored: bool) -> list[str]:
    times = [_ms(time) for time in (row.eager_ms, row.compile_ms, row.max_autotune_ms, row.kernel_ms)]
    roofline = "" if row.roofline_fraction is None else f"{row.roofline_fraction:.0%}"
    own = ["" if row.score is None else f"{row.score:.3f}"] if scored else []
    name = "/".join(filter(None, (row.subset, row.problem)))
    return [name, str(row.verdict), *times, str(row.counted or ""), roofline, *own, row.cause]


def _ms(time: float | None) -> str:
    return "" if time is None else f"{time:.4g}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
