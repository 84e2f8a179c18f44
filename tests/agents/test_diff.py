"""Two sessions side by side: when their speedups may be compared."""

import given
from kernelswarm.schemas import Event, Intent, MemoryOperator, NodePlanned, SessionClosed
from kernelswarm.sessions.diff import SessionDiff, compare
from kernelswarm.sessions.recorded_session import RecordedSession

COMPILED = dict.fromkeys(("compile", "max_autotune"), "it was still being compiled when the candidate was timed")


def _session(name: str, speedup: float, absent: dict[str, str]) -> RecordedSession:
    against = "eager" if absent else "max_autotune"
    reached = given.interval(speedup)
    events: list[tuple[str, Event]] = [
        ("", given.opened()),
        ("n001", NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)),
        ("n001", given.candidate()),
        ("n001", given.diagnosed(speedup, absent=absent, against=against)),
        ("", SessionClosed(reason="budget", best="n001", speedup=reached, against=against, candidates=1, correct=1)),
    ]
    return RecordedSession(
        name,
        [
            (at, given.envelope_of(event, node=node, session=name, at_ns=at, index=at))
            for at, (node, event) in enumerate(events, 1)
        ],
    )


def _compared(absent: dict[str, str]) -> SessionDiff:
    return compare(_session("mapid-aaaaa", 13.4, absent), _session("mapid-bbbbb", 1.6, {}))


def test_speedups_over_other_baselines_are_not_compared() -> None:
    hasty = _compared(COMPILED)
    assert not hasty.comparable and hasty.better == "" and hasty.a.candidates_to_better is None
    alike = _compared({})
    assert alike.comparable and alike.better == "mapid-aaaaa"


def test_candidates_are_counted_as_show_does() -> None:
    """Those that were made were counted, judged or not: another number than that of `show`."""
    session = _session("mapid-aaaaa", 1.6, {})
    unjudged = (
        NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate),
        given.candidate("def kernel(x, w): return w"),
    )
    for at, event in enumerate(unjudged, 10):
        session.events.insert(-1, (at, given.envelope_of(event, node="n002", session=session.id, at_ns=at, index=at)))
    assert compare(session, session).a.candidates == 1
    session.events.pop()
    assert compare(session, session).a.candidates == 2, "of an open session those that were made"


def test_wins_are_those_that_the_session_counted() -> None:
    assert _compared({}).a.wins == 0
