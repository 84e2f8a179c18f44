"""How far a search is, for whoever waits for it in Python: one line that is written over, where somebody looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..bus import STILL_USED
from ..graph.measured import mean_text
from ..graph.session_graph import SearchGraph
from ..schemas import BaselinesMeasured, Event, Interval, NodeDiagnosed, SessionOpened
from ..schemas.pool import BASELINE_NAMES

WIDTH = 100
"""Characters of the line."""

Say = Callable[[str], None]


@contextmanager
def progress(on_notice: Say | None) -> Iterator[Say]:
    """What to call with news: ``on_notice``, or by default a line on stderr, which is gone at the end.

    Where nobody watches, only what would look like a program that hangs is written there.
    """
    if on_notice is not None:
        yield on_notice
    elif not _is_seen():
        yield _write_if_it_waits
    else:
        try:
            yield _write_over
        finally:
            _write_over("")


def step_text(event: Event, graph: SearchGraph) -> str:
    """What an event of a search means for somebody who waits; empty if it means nothing to them."""
    if isinstance(event, SessionOpened):
        return f"session {graph.session} is open: timing the baselines, writing the first of {event.budget} candidates"
    if isinstance(event, BaselinesMeasured):
        times = event.report.median_ms.items()
        texts = (f"{BASELINE_NAMES.get(name, name)} {ms:.3f} ms" for name, ms in times)
        return f"baselines: {', '.join(texts)}{mean_text(len(event.report.shapes))}"
    if not isinstance(event, NodeDiagnosed) or graph.opened is None:
        return ""
    done = sum(node.diagnosis is not None for node in graph.own())
    best = graph.best()
    fastest = f"; {_fastest(best.speedup, best.doubts)}" if best is not None and best.speedup is not None else ""
    stage = ", timing finalists" if event.confirmation else ""
    return f"{done} of {graph.opened.budget} candidates{stage}{fastest}"


def _fastest(speedup: Interval, doubts: str) -> str:
    if speedup.is_noise:
        return "times are too noisy to tell"
    return f"the fastest stands at {speedup.brief}{f', {doubts}' if doubts else ''}"


def _is_seen() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _write_if_it_waits(text: str) -> None:
    if text == STILL_USED:
        sys.stderr.write(f"kernelswarm: {text.replace('--nats', 'nats=URL')}\n")


def _write_over(text: str) -> None:
    line = " ".join(text.split())[:WIDTH]
    sys.stderr.write(f"\r{line:<{WIDTH}}\r{line}")
    sys.stderr.flush()
