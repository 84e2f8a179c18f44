"""What a running search shows: a live picture on a terminal, plain lines elsewhere, nothing with ``--json``."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..agents.graph import NodeRecord, SearchGraph
from ..agents.search import Search
from ..schemas import (
    BaselinesMeasured,
    Envelope,
    Event,
    Interval,
    NodeDiagnosed,
    SessionClosed,
    SkillDistilled,
    Verdict,
)
from .terminal import err

RECENT = 8
"""Rows of the candidates' table."""


class Display(Protocol):
    """Shows a search while it runs."""

    def notice(self, text: str) -> None:
        """Say what is happening outside the session's events."""

    def opened(self, search: Search) -> None:
        """The session exists from now on."""

    def show(self, envelope: Envelope, event: Event) -> None:
        """An event came; it is folded into the search's graph already."""


@contextmanager
def open_display(*, quiet: bool) -> Iterator[Display]:
    """The display that fits where stderr goes."""
    if quiet and not sys.stderr.isatty():
        yield Silent()
    elif err.is_terminal:
        picture = Picture()
        with Live(picture, console=err, refresh_per_second=4, transient=True):
            yield picture
    else:
        yield Lines()


class Silent:
    """Shows nothing."""

    def notice(self, text: str) -> None:
        """Nothing."""

    def opened(self, search: Search) -> None:
        """Nothing."""

    def show(self, envelope: Envelope, event: Event) -> None:
        """Nothing."""


class Lines:
    """One plain line for each thing worth knowing."""

    def __init__(self) -> None:
        self._search: Search | None = None

    def notice(self, text: str) -> None:
        """Print it."""
        err.print(text, markup=False)

    def opened(self, search: Search) -> None:
        """Print the session's id."""
        self._search = search
        err.print(f"session {search.session}", markup=False)

    def show(self, envelope: Envelope, event: Event) -> None:
        """Print baselines, diagnoses and the end."""
        line = self._line(envelope, event)
        if line:
            err.print(line, markup=False)

    def _line(self, envelope: Envelope, event: Event) -> str:
        match event:
            case BaselinesMeasured():
                times = ", ".join(f"{name} {ms:.3f} ms" for name, ms in event.report.median_ms.items())
                missing = [f"no {status.name}: {status.detail}" for status in event.report.statuses if not status.ok]
                return "; ".join([f"baselines: {times}", *missing])
            case NodeDiagnosed():
                node = self._search.graph.nodes[envelope.node] if self._search else NodeRecord(envelope.node)
                what = "confirm" if event.confirmation else (str(node.plan.intent) if node.plan else "")
                parent = f" of {node.parent}" if node.parent and not event.confirmation else ""
                return f"{envelope.node} {what + parent:<16} {event.summary}"
            case SkillDistilled():
                return f"skill {event.skill.id}"
        return ""


class Picture:
    """The graph's best path, the latest candidates, and what the swarm is doing."""

    def __init__(self) -> None:
        self._search: Search | None = None
        self._notice = ""
        self._started = time.monotonic()

    def notice(self, text: str) -> None:
        """Show it in the last line."""
        self._notice = text

    def opened(self, search: Search) -> None:
        """Begin to show the session."""
        self._search, self._notice, self._started = search, "", time.monotonic()

    def show(self, envelope: Envelope, event: Event) -> None:
        """The picture is drawn from the graph; only the end needs words."""
        if isinstance(event, SessionClosed):
            self._notice = "closed; writing down what was learned"

    def __rich__(self) -> RenderableType:
        """Draw: rich asks four times a second."""
        if self._search is None:
            return Text(self._notice or "starting", style="dim")
        graph = self._search.graph
        parts: list[RenderableType] = [self._head(graph), _path(graph), _candidates(graph)]
        parts.append(Text(self._notice or self._doing(), style="dim", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _head(self, graph: SearchGraph) -> Text:
        seconds = time.monotonic() - self._started
        judged = sum(node.diagnosis is not None for node in graph.nodes.values())
        budget = graph.opened.budget if graph.opened else 0
        rate = judged / seconds * 60 if seconds > 1 else 0.0
        head = Text.assemble(
            (graph.session, "bold"), f"  {judged}/{budget} candidates  {rate:.0f}/min  {seconds:.0f} s"
        )
        best = graph.best()
        if best is not None:
            head.append(f"  best {best.fitness:.2f}x", style="bold green" if best.fitness > 1 else "yellow")
        elif graph.baselines is None:
            head.append("  compiling the baselines", style="dim")
        return head

    def _doing(self) -> str:
        swarm = self._search.swarm if self._search else None
        doing = swarm.doing() if swarm else {}
        shown = [f"{name.split('.')[-2]} {what.rpartition('/')[2]}" for name, what in doing.items()]
        return "swarm: " + (", ".join(shown) or "waiting")


def _path(graph: SearchGraph) -> Text:
    best = graph.best()
    if best is None:
        return Text("best path: none yet", style="dim")
    steps = [f"{node.name} {node.fitness:.2f}x" for node in reversed(graph.lineage(best.name))]
    return Text("best path: " + " → ".join(steps), style="green")


def _candidates(graph: SearchGraph) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("node", "from", "intent", "state", "speedup", "interval", "limited by"):
        table.add_column(column, no_wrap=True)
    for node in list(graph.nodes.values())[-RECENT:]:
        told = node.confirmation_diagnosis or node.diagnosis
        state = "confirmed" if node.confirmation_diagnosis else node.state
        speedup = told.speedup if told else None
        limited = told.bottleneck.replace("_", " ") if told and told.verdict is Verdict.correct else ""
        intent = str(node.plan.intent) if node.plan else ""
        table.add_row(
            node.name, node.parent, intent, escape(state), *_interval(speedup), limited, style=_style(speedup, state)
        )
    return table


def _interval(speedup: Interval | None) -> tuple[str, str]:
    if speedup is None:
        return "", ""
    return f"{speedup.median:.2f}x", f"{speedup.low:.2f} to {speedup.high:.2f}"


def _style(speedup: Interval | None, state: str) -> str:
    if speedup is not None:
        return "green" if speedup.is_win else ""
    return "" if state in ("planned", "proposed", "compiled", "verified", "profiled") else "red"
