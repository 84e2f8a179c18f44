"""What is said at the end of a search whose time was too short."""

import asyncio
import os
from typing import Any, cast

import pytest

import given
from kernelswarm.bus import Bus
from kernelswarm.cli.following import follow, spent_text, without_baselines
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.schemas import Event, SessionClosed
from kernelswarm.sessions.interrupts import Interrupts
from kernelswarm.sessions.search import Search
from kernelswarm.sessions.spectator import Spectator

SECOND = 1_000_000_000


def ended(*, minutes: float | None = 2.0, seconds: int = 73, **closed: object) -> str:
    """What is said after a session that was open for ``seconds``."""
    end = SessionClosed(**({"reason": "minutes"} | closed))  # type: ignore[arg-type]
    graph = SearchGraph("s-test1")
    for event, at in ((given.opened(minutes=minutes), 0), (end, seconds)):
        envelope = given.envelope_of(event, cause=str(at), at_ns=SECOND * (at + 1))
        graph.apply(envelope, event)
    return spent_text(graph, envelope)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.mark.usefixtures("idle")
def test_a_search_in_which_nothing_was_judged_says_where_its_minutes_went() -> None:
    assert ended() == "47 s went into validation, 73 s into the baselines and the first verification"


def test_and_that_the_machine_was_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (8.4, 7.0, 4.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert ended().endswith(", with 8 programs at work on 2 cores")


@pytest.mark.parametrize(
    "other", [{"minutes": None}, {"candidates": 1}, {"reason": "interrupted"}, {"seconds": 900}], ids=str
)
def test_any_other_search_does_not(other: dict[str, object]) -> None:
    assert ended(**other) == ""  # type: ignore[arg-type]


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    ("minutes", "says"),
    [
        (2.0, "not timed within 75 s; give it more (--minutes 4)"),
        (None, "not timed within 300 s after its end; run it again when less else runs here"),
    ],
)
def test_a_search_without_baselines_says_what_helps(minutes: float | None, says: str) -> None:
    assert without_baselines(given.opened(minutes=minutes, spent_s=73.0), 2.0).endswith(says)


class Leaving:
    """A bus on which nothing comes until the workers of a search have left."""

    def __init__(self, *late: Event) -> None:
        self.following = asyncio.Event()
        self._late = [(number, given.envelope_of(event, at_ns=5 * SECOND)) for number, event in enumerate(late, 1)]

    async def tail(self, **_: object) -> Any:
        self.following.set()
        await asyncio.Event().wait()
        yield

    async def history(self, session: str, after: int) -> Any:
        return [entry for entry in self._late if entry[0] > after]


@pytest.mark.parametrize("closed", [False, True])
async def test_whoever_leaves_at_once_is_told_how_to_go_on_unless_the_session_closed_meanwhile(closed: bool) -> None:
    """It was said to stay open, and no file was written, although the planner had closed it by then."""
    bus: Any = Leaving(*[given.opened(), SessionClosed(reason="interrupted", candidates=2)][: 1 + closed])
    search = Search("s-test1", "bare", bus, None, "", 0)
    search.watch_workers = lambda _: asyncio.sleep(0)  # type: ignore[method-assign]
    lines: list[str] = []
    display = Spectator()
    display.say = lines.append  # type: ignore[method-assign]
    interrupts = Interrupts(asyncio.current_task(), asyncio.get_running_loop())  # type: ignore[arg-type]
    task = asyncio.create_task(follow(search, display, interrupts))
    await bus.following.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() is not closed
    assert lines == ([] if closed else ["session s-test1 stays open: kernelswarm resume s-test1 goes on with it"])
    if closed:
        assert (search.result().candidates, search.result().seconds) == (2, 0.0)


def test_a_resumed_search_took_the_time_since_its_opening() -> None:
    """It was said to have taken 0 s: the time since it was resumed."""
    search = Search("s-test1", "bare", cast(Bus, None), None, "", 0)
    for event, at in ((given.opened(), 0), (SessionClosed(reason="interrupted"), 90)):
        search._fold(given.envelope_of(event, at_ns=SECOND * (1 + at)), event)
    assert search.result().seconds == 90.0
