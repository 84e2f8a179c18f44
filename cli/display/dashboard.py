"""The live display of a running search: how far it is, its best path, the latest candidates, who does what."""

import time
from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ...graph.session_graph import NodeRecord, SearchGraph
from ...graph.tasks import SessionTasks
from ...schemas import AuthorBenched, BaselinesMeasured, Envelope, Event, Interval, SessionClosed, Verdict
from ...sessions.private_inputs import without_seeds
from ...sessions.spectator import Shown, Spectator
from .summary import times_text
from .task_text import outside_text
from .terminal import err, plain_table

RECENT = 8
"""Rows of the candidates' table."""

UNDER_WAY = ("planned", "proposed", "compiled", "verified", "profiled")


class Dashboard(Spectator):
    """Drawn anew four times a second, from the graph alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.search: Shown | None = None
        """Of which it is; None until that is there."""
        self.is_gone = False
        """It is on the screen no longer: what comes now is printed."""
        self._notice = ""
        self._waiting = ""
        self._started = clock()
        self._measured = 0.0
        """When the baselines were there: candidates are judged from then on."""
        self._spinner = Spinner("dots", style="dim")

    def notice(self, text: str) -> None:
        """Show it in the last line."""
        self._notice = text
        if self.is_gone:
            self.say(text)

    def say(self, text: str) -> None:
        """Print it above the dashboard."""
        err.print(text, markup=False)

    def waiting(self, text: str) -> None:
        """Show it in the last line until it is taken back."""
        self._waiting = text

    def opened(self, search: Shown) -> None:
        """Begin to show the session."""
        self.search, self._notice = search, ""

    def show(self, envelope: Envelope, event: Event) -> None:
        """The dashboard is drawn from the graph; only the turning points are noted."""
        if isinstance(event, BaselinesMeasured):
            self._measured = self._clock()
        elif isinstance(event, AuthorBenched):
            self.say(event.sentence)
        elif isinstance(event, SessionClosed):
            self._notice = "closed; writing down what was learned"

    def __rich__(self) -> RenderableType:
        """Draw."""
        if self.search is None:
            return self._busy(f"{self._notice or 'starting'}  {self._clock() - self._started:.0f} s")
        graph = self.search.graph
        return Group(self._head(graph), _baselines(graph), _path(graph), _candidates(graph), self._busy(self.doing()))

    def _busy(self, text: str) -> RenderableType:
        self._spinner.update(text=Text(text, style="dim", no_wrap=True, overflow="ellipsis"))
        return self._spinner

    def _head(self, graph: SearchGraph) -> RenderableType:
        judged, budget = _judged(graph), _budget(graph)
        minutes = graph.opened.minutes if graph.opened and graph.opened.reserve else None
        limit = f" of {minutes * 60:.0f}" if minutes else ""
        status = f"{far_text(graph)}  {self._rate(judged)}{self._clock() - self._started:.0f}{limit} s"
        head = Table.grid(padding=(0, 2))
        head.add_row(Text(graph.session, "bold"), ProgressBar(budget or 1, judged, width=20), status, best_text(graph))
        return head

    def _rate(self, judged: int) -> str:
        seconds = self._clock() - self._measured
        return f"{judged / seconds * 60:.0f}/min  " if self._measured and judged and seconds > 1 else ""

    def doing(self) -> str:
        """Who does what, or what is waited for."""
        if self._notice or self._waiting or self.search is None:
            return self._notice or self._waiting
        doing = self.search.swarm.doing() if self.search.swarm else {}
        shown = [f"{name.split('.')[-2]} {_subject(busy_with)}" for name, busy_with in doing.items()]
        return ", ".join(shown) or outside_text(self.search.graph) or "waiting for the swarm"


def far_text(graph: SearchGraph) -> str:
    """``7/40 candidates``: judged, of the budget."""
    return f"{_judged(graph)}/{_budget(graph)} candidates"


def _judged(graph: SearchGraph) -> int:
    return sum(node.diagnosis is not None for node in graph.own())


def _budget(graph: SearchGraph) -> int:
    return graph.opened.budget if graph.opened else 0


def _subject(busy_with: str) -> str:
    """A worker is busy with ``session/node``, or with the session's baselines."""
    return busy_with.partition("/")[2] or "baselines"


def best_text(graph: SearchGraph) -> Text:
    """The best candidate's speedup; nothing until there is one."""
    best = graph.best()
    if best is None:
        return Text("")
    doubts = f", {best.doubts}" if best.doubts else ""
    return Text(f"best {_speedup(best)}{doubts}", style="bold green" if best.fitness > 1 else "yellow")


def _speedup(node: NodeRecord) -> str:
    return node.speedup.cells[0] if node.speedup is not None else "not timed"


def _baselines(graph: SearchGraph) -> Text:
    if graph.baselines is None:
        return Text("baselines  being compiled", style="dim")
    report = graph.baselines.report
    return Text("baselines  " + times_text(report.median_ms, len(report.shapes)), style="dim")


def _path(graph: SearchGraph) -> Text:
    best = graph.best()
    if best is None:
        return Text("best path  none yet", style="dim")
    # Of a fork, ancestors measured on other hardware have no number here.
    here = [node for node in reversed(graph.lineage(best.name)) if not node.elsewhere]
    steps = [f"{node.name} {_speedup(node)}" for node in here]
    return Text("best path  " + " → ".join(steps), style="green", no_wrap=True, overflow="ellipsis")


def _candidates(graph: SearchGraph) -> Table:
    table = plain_table(header="dim")
    for column, width in (("node", 4), ("from", 4), ("intent", 7), ("state", 13), ("speedup", 7), ("interval", 12)):
        table.add_column(column, no_wrap=True, min_width=width)
    table.add_column("limited by", no_wrap=True, overflow="ellipsis")
    best = graph.best()
    for node in graph.own()[-RECENT:]:
        diagnosis = node.confirmation_diagnosis or node.diagnosis
        speedup = diagnosis.speedup if diagnosis else None
        cells = (
            node.name,
            node.parent,
            str(node.plan.intent) if node.plan else "",
            _state(node, graph.tasks),
            *_interval(speedup),
            _why(node),
        )
        style = _style(speedup, node) + (" bold" if node is best else "")
        table.add_row(*map(Text, cells), style=style.strip())
    return table


def _state(node: NodeRecord, tasks: SessionTasks) -> str:
    if node.confirmation_diagnosis:
        return "confirmed"
    if node.state == "planned" and node.name in tasks.tasks:
        return "held" if tasks.tasks[node.name].holder else "waits"
    return "timed" if node.state == "done" else node.state.replace("_", " ")


def _why(node: NodeRecord) -> str:
    diagnosis = node.confirmation_diagnosis or node.diagnosis
    if diagnosis is None:
        return ""
    if diagnosis.verdict is Verdict.correct:
        return "; ".join(filter(None, (diagnosis.bottleneck.in_words, node.doubts)))
    return next(iter(without_seeds(diagnosis.summary).splitlines()), "")


def _interval(speedup: Interval | None) -> tuple[str, str]:
    return ("", "") if speedup is None else speedup.cells


def _style(speedup: Interval | None, node: NodeRecord) -> str:
    if speedup is not None:
        return "green" if speedup.is_win else ""
    return "" if node.state in UNDER_WAY else "red"
