"""The table at the end of a search."""

import textwrap
from collections.abc import Collection, Sequence

from rich.markup import escape
from rich.table import Table

from ...agents.planner.synthesis import NO_CANDIDATE
from ...graph.measured import Ordinary, ShapeResult, mean_text
from ...graph.tasks import INTERRUPTED
from ...schemas import Interval
from ...schemas.pool import BASELINE_NAMES
from ...sessions.results import Numbers, SearchResult, Speedup, seconds_text
from ...store import NodeRow
from .terminal import out, plain_table, print_wide
from .unjudged import stage_text

NAMES = {**BASELINE_NAMES, "candidate": "best kernel"}
"""What was timed, as people call it and in the order in which they look for it."""
LONGEST_IDEA = 300
"""Characters of what an author says of its kernel; ``show`` has all of it."""


def times_text(times: dict[str, float], shapes: int = 1) -> str:
    """Milliseconds by name, for people; of several ``shapes`` it says what they are."""
    text = ", ".join(f"{NAMES.get(name, name)} {times[name]:.3f} ms" for name in sorted(times, key=rank))
    return text + mean_text(shapes)


def rank(name: str) -> int:
    """Where a series stands among others: the baselines first, the candidate last."""
    return list(NAMES).index(name) if name in NAMES else len(NAMES)


def spending_text(cost: float | None, tokens: int, cache_hit_rate: float | None) -> str:
    """``$0.42, 81,200 tokens, 63 % of the requests' from caches``."""
    money = "price unknown" if cost is None else f"${cost:.2f}" if cost >= 0.01 or not cost else f"${cost:.4f}"
    cached = "" if cache_hit_rate is None else f", {cache_hit_rate:.0%} of the requests' from caches"
    return f"{money}, {tokens:,} tokens{cached}"


def count(number: int, noun: str) -> str:
    """``1 win``, ``2 wins``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def outcome(win: bool, detail: str, measure: str | None = "") -> str:
    """Whether it is a win, and the session's last sentence, as markup; ``measure`` names an accelerator's number."""
    sentence = detail.removeprefix("no win found: ")
    named = f"win ({measure})" if measure else "win"
    return f"[bold green]{named}[/]  {escape(sentence)}" if win else f"[yellow]no win found[/]  {escape(sentence)}"


def print_summary(result: SearchResult, failures: Collection[str] = ()) -> None:
    """Print what was found, where it is, and how to look further; ``failures`` of syntheses stand above."""
    if result.device is not None:
        print_wide(_two_numbers(result))
    elif result.times_ms:
        print_wide(_times(result))
    if result.shapes:
        print_wide(shapes_table(result.shapes, counted_text(result)))
    reason = result.detail.removeprefix(NO_CANDIDATE)
    is_above = reason != result.detail and any(failure.endswith(reason) for failure in failures)
    detail = f"{NO_CANDIDATE}see above" if is_above else result.detail
    out.print(outcome(result.win, detail, result.measure))
    out.print(f"{_counts(result)} in {seconds_text(result)}; ended: {result.reason.replace('_', ' ')}")
    if result.unjudged:
        stages = (f"{node}: {stage_text(state)}" for node, state in result.unjudged.items())
        out.print(f"unjudged {'; '.join(stages)}", markup=False)
    if result.withdrawn:
        out.print(f"outside  nobody handed in {', '.join(result.withdrawn)}: withdrawn", markup=False)
    if result.model_tokens:
        out.print(f"models   {spending_text(result.model_cost, result.model_tokens, result.cache_hit_rate)}")
    if result.rationale:
        idea = textwrap.shorten(result.rationale, LONGEST_IDEA, placeholder=" …")
        out.print(f"best     {result.best}: {idea}", markup=False)
    if result.path:
        kind = "judged correct, but not timed as this file" if result.ordinary_missing else "the fastest correct one"
        out.print(f"kernel   [bold]{escape(result.path)}[/]{'' if result.win else f'  ({kind})'}")
    out.print(f"session  {result.session}")
    if result.reason == INTERRUPTED and result.best:
        # An interrupted session is closed: what was under way has its end.
        out.print(f"go on    kernelswarm fork {result.session} --node {result.best}", markup=False)
    out.print(f"look     kernelswarm show {result.session}", markup=False)
    out.print(
        f'         kernelswarm sql "SELECT node, verdict, speedup, speedup_low, bottleneck FROM nodes '
        f"WHERE session = '{result.session}' ORDER BY fitness DESC\"",
        markup=False,
    )


def _counts(result: SearchResult) -> str:
    if not result.candidates:
        return "no candidate was judged" if result.unjudged else "no candidate"
    return f"{count(result.candidates, 'candidate')}, {result.correct} correct, {count(result.wins, 'win')}"


def _two_numbers(result: SearchResult) -> Table:
    """An accelerator's numbers, each with columns of its own; the one first that makes a win."""
    numbers = {"device": result.device, "call": result.call}
    ordered = sorted(numbers, key=lambda name: name != result.measure)
    columns: list[str] = []
    for name in ordered:
        warm = ("warm cache",) if _is_warm(numbers[name]) else ()
        columns += (f"{name} ms", *warm, f"{name} speedup", "95 % interval")
    table = _table(result.problem + mean_text(len(result.shapes)), *columns, "roofline")
    for key, baseline in NAMES.items():
        if any(key in number.times_ms for number in numbers.values() if number is not None):
            own = key == "candidate"
            fraction = f"{result.roofline_fraction:.0%}" if own and result.roofline_fraction is not None else ""
            cells = [cell for name in ordered for cell in _number_cells(numbers[name], key)]
            table.add_row(baseline, *cells, fraction, style="bold" if own else "")
    return table


def _table(first: str, *numbers: str) -> Table:
    """The first column may be wrapped, the others may not."""
    table = plain_table(first)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _is_warm(number: Ordinary | None) -> bool:
    return number is not None and bool(number.warm_ms)


def _number_cells(number: Ordinary | None, key: str) -> tuple[str, ...]:
    if number is None or key not in number.times_ms:
        return ("",) * (4 if _is_warm(number) else 3)
    warm = (f"{number.warm_ms[key]:.4g}" if key in number.warm_ms else "",) if _is_warm(number) else ()
    return f"{number.times_ms[key]:.4g}", *warm, *_cells(number.speedups.get(key))


def _times(result: SearchResult) -> Table:
    """Ordinary processes first, where they were timed; beside them the judge."""
    judged = ("by the judge",) if result.ordinary else ()
    table = _table(
        result.problem + mean_text(len(result.shapes)), "ms", "speedup", "95 % interval", *judged, "roofline"
    )
    times = result.ordinary.times_ms if result.ordinary else result.times_ms
    for key, name in NAMES.items():
        if key not in times and key not in result.times_ms:
            continue
        own = key == "candidate"
        fraction = f"{result.roofline_fraction:.0%}" if own and result.roofline_fraction is not None else ""
        style = "bold" if own else ("cyan" if result.counted and key == result.counted.against else "")
        milliseconds = f"{times[key]:.3f}" if key in times else ""
        table.add_row(name, milliseconds, *_ratios(result, key), fraction, style=style)
    return table


def _ratios(result: SearchResult, baseline: str) -> tuple[str, ...]:
    judged = result.speedups.get(baseline)
    if result.ordinary is None:
        return _cells(judged)
    beside = judged.in_words if judged is not None else ""
    return *_cells(result.ordinary.speedups.get(baseline)), beside


def _cells(speedup: Interval | None) -> tuple[str, str]:
    return speedup.cells if speedup is not None else ("", "")


def counted_text(numbers: Numbers) -> str:
    """What the numbers of :func:`shapes_table` are measured by."""
    if numbers.device is not None:
        return "as a call" if numbers.measure == "call" and numbers.call is not None else "on the device"
    return "in ordinary processes" if numbers.ordinary is not None else "by the judge"


def shapes_table(shapes: Sequence[ShapeResult], counted: str) -> Table:
    """A row for each shape, the worst one marked; times are those that the speedup is made of, ``counted`` where."""
    table = _table(
        f"shape, {counted}", "weight", "best baseline", "ms", "kernel ms", "speedup", "95 % interval", "roofline"
    )
    worst = min(shapes, key=lambda shape: shape.counted.median)
    for shape in shapes:
        table.add_row(
            f"{shape.shape} (worst)" if shape is worst else shape.shape,
            f"{shape.weight:g}",
            NAMES.get(shape.against, shape.against),
            *(f"{shape.times_ms[name]:.4g}" for name in (shape.against, "candidate")),
            *shape.counted.cells,
            "" if shape.roofline_fraction is None else f"{shape.roofline_fraction:.0%}",
            style="yellow" if shape is worst and shape.counted.low <= 1.0 else "",
        )
    return table


def speedup_cells(median: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    """A speedup and its interval for people; empty where there is none."""
    if median is None or low is None or high is None:
        return "", ""
    return Interval(median=median, low=low, high=high).cells


def speedup_text(median: float | None, low: float | None, high: float | None) -> str:
    """The same in one piece, for a sentence."""
    if median is None or low is None or high is None:
        return ""
    return Interval(median=median, low=low, high=high).in_words


def doubts_text(node: NodeRow) -> str:
    """What speaks against the speedup of a node that was timed once; empty if nothing does."""
    low, median, high = node.speedup_low, node.speedup, node.speedup_high
    if node.confirmed or low is None or median is None or high is None:
        return ""
    return Interval(median=median, low=low, high=high).doubts(node.background_load or 0.0)


def ratio_text(speedup: Speedup) -> str:
    """``1.20x (1.10 to 1.30) against torch.compile``."""
    return f"{speedup.in_words} against {NAMES.get(speedup.against, speedup.against)}"
