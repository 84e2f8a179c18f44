"""The table at the end of a search."""

from rich.markup import escape
from rich.table import Table

from ..agents.session import SearchResult
from ..schemas import Interval
from ..schemas.pool import BASELINE_NAMES
from .terminal import out

NAMES = {**BASELINE_NAMES, "candidate": "best kernel"}
"""What was timed, as people call it and in the order in which they look for it."""


def times_text(times: dict[str, float]) -> str:
    """Milliseconds by name, for people."""
    return ", ".join(f"{NAMES.get(name, name)} {times[name]:.3f} ms" for name in sorted(times, key=rank))


def rank(name: str) -> int:
    """Where a series stands among others: the baselines first, the candidate last."""
    return list(NAMES).index(name) if name in NAMES else len(NAMES)


def count(number: int, noun: str) -> str:
    """``1 win``, ``2 wins``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def outcome(win: bool, detail: str) -> str:
    """Whether it is a win, and the session's last sentence, as markup."""
    said = detail.removeprefix("no win found: ")
    return f"[bold green]win[/]  {escape(said)}" if win else f"[yellow]no win found[/]  {escape(said)}"


def print_summary(result: SearchResult) -> None:
    """Print what was found, where it is, and how to look further."""
    if result.times_ms:
        out.print(_times(result))
    out.print(outcome(result.win, result.detail))
    out.print(f"{_counts(result)} in {result.seconds:.0f} s; ended: {result.reason.replace('_', ' ')}")
    if result.path:
        out.print(f"kernel   [bold]{escape(result.path)}[/]")
    elif result.best:
        out.print("kernel   no best.py: what does not win is not written; show --source prints it", markup=False)
    out.print(f"session  {result.session}")
    out.print(f"look     kernelswarm show {result.session}", markup=False)
    out.print(
        f'         kernelswarm sql "SELECT node, verdict, speedup, bottleneck FROM nodes '
        f"WHERE session = '{result.session}' ORDER BY speedup DESC\"",
        markup=False,
    )


def _counts(result: SearchResult) -> str:
    if not result.candidates:
        return "no candidate"
    return f"{count(result.candidates, 'candidate')}, {result.correct} correct, {count(result.wins, 'win')}"


def _times(result: SearchResult) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(result.problem)
    table.add_column("ms", justify="right")
    table.add_column("best kernel is", justify="right")
    table.add_column("95 % interval", justify="right")
    table.add_column("roofline", justify="right")
    for key, name in NAMES.items():
        if key not in result.times_ms:
            continue
        own = key == "candidate"
        fraction = f"{result.roofline_fraction:.0%}" if own and result.roofline_fraction is not None else ""
        ratio, interval = _ratio(result.speedups.get(key))
        style = "bold" if own else ("cyan" if key == result.against else "")
        table.add_row(name, f"{result.times_ms[key]:.3f}", ratio, interval, fraction, style=style)
    return table


def _ratio(speedup: Interval | None) -> tuple[str, str]:
    if speedup is None:
        return "", ""
    return f"{speedup.median:.2f}x", f"{speedup.low:.2f} to {speedup.high:.2f}"
