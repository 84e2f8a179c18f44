"""What a running search shows: a live display on a terminal, plain lines elsewhere, nothing with ``--json``."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.live import Live

from ...graph.session_graph import NodeRecord, SearchGraph
from ...schemas import (
    DEADLINE,
    FINISHED,
    IDLE,
    AuthorBenched,
    BaselinesMeasured,
    Envelope,
    Event,
    NodeDiagnosed,
    SkillDistilled,
    StopRequested,
    TaskClaimed,
    TaskExpired,
    TaskOpened,
    TaskReleased,
    Verdict,
)
from ...sessions.private_inputs import without_seeds
from ...sessions.spectator import Shown, Spectator
from .dashboard import Dashboard
from .summary import NAMES, times_text
from .task_text import outside_text
from .terminal import err, is_screen


@contextmanager
def open_display(*, quiet: bool, clock: Callable[[], float] = time.monotonic) -> Iterator[Spectator]:
    """The display that fits where stderr goes. ``clock`` counts the seconds that it shows."""
    if is_screen():
        dashboard = Dashboard(clock)
        with Live(dashboard, console=err, refresh_per_second=4, transient=True):
            yield dashboard
        dashboard.is_gone = True
    elif quiet:
        yield Spectator()
    else:
        yield Lines()


_ENDS = {
    FINISHED: "an outside author says that nothing more comes",
    IDLE: "no outside author came back in time",
    "target": "the target is reached",
    "floor": "the roofline's floor is reached",
}


def time_text(reason: str, graph: SearchGraph) -> str:
    """What a stop of ``graph`` means where its minutes end all of it, or its outside authors; empty for other stops."""
    if reason in _ENDS:
        return f"{_ENDS[reason]}: the best candidates are confirmed"
    if reason == DEADLINE:
        return "its time is over"
    if reason != "minutes" or graph.opened is None or not graph.opened.reserve:
        return ""
    last = f"the last {graph.opened.reserve * 60:.0f} s"
    if graph.best() is not None:
        return f"no more candidates: {last} confirm the best"
    judged = "is right" if any(node.diagnosis is not None for node in graph.own()) else "is judged"
    before = "" if graph.baselines is not None else "the baselines and "
    return f"no more candidates: none {judged} yet, {last} are for {before}those under way"


class PlainLines(Spectator):
    """One plain line for each thing worth knowing that is no event."""

    def notice(self, text: str) -> None:
        """Print it."""
        err.print(text, markup=False)

    def waiting(self, text: str) -> None:
        """Print it."""
        err.print(text or "nothing is waited for any more", markup=False)

    def say(self, text: str) -> None:
        """Print it."""
        err.print(text, markup=False)

    def opened(self, search: Shown) -> None:
        """Print the session's id."""
        err.print(f"session {search.session}", markup=False)


class Lines(PlainLines):
    """Baselines, diagnoses and the end as well."""

    def __init__(self) -> None:
        self._search: Shown | None = None
        self._outside = ""
        """Whom it waits for outside, as far as it was printed."""
        self.failures: set[str] = set()

    def opened(self, search: Shown) -> None:
        """Print the session's id."""
        self._search = search
        super().opened(search)

    def show(self, envelope: Envelope, event: Event) -> None:
        """Print baselines, diagnoses and the end."""
        line = self._line(envelope, event)
        if line:
            err.print(line, markup=False)

    def _line(self, envelope: Envelope, event: Event) -> str:
        match event:
            case TaskOpened() | TaskReleased() | TaskExpired() if self._search:
                text = outside_text(self._search.graph)
                self._outside, before = text, self._outside
                return text if text != before else ""
            case TaskClaimed():
                return f"{envelope.node} claimed by {event.agent} for {event.minutes:g} min"
            case BaselinesMeasured():
                absent = [status for status in event.report.statuses if not status.ok]
                missing = [f"no {NAMES.get(status.name, status.name)}: {status.detail}" for status in absent]
                return "; ".join(
                    [f"baselines: {times_text(event.report.median_ms, len(event.report.shapes))}", *missing]
                )
            case NodeDiagnosed(verdict=Verdict.synthesis_failed) if event.summary in self.failures:
                return ""  # of several nodes one sentence says it
            case NodeDiagnosed():
                if event.verdict is Verdict.synthesis_failed:
                    self.failures.add(event.summary)
                node = self._search.graph.nodes[envelope.node] if self._search else NodeRecord(envelope.node)
                intent = "confirm" if event.confirmation else (str(node.plan.intent) if node.plan else "")
                parent = f" of {node.parent}" if node.parent and not event.confirmation else ""
                return f"{envelope.node} {intent + parent:<16} {without_seeds(event.summary)}"
            case StopRequested() if self._search:
                return time_text(event.reason, self._search.graph)
            case AuthorBenched():
                return event.sentence
            case SkillDistilled():
                return f"skill {event.skill.id}"
        return ""
