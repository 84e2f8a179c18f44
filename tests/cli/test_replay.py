"""replay and diff on the command line, over histories that were recorded on another machine."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import histories
import msgspec
import pytest

import given
import kernelswarm
from kernelswarm.cli.display.replay_text import print_re_evaluation
from kernelswarm.schemas import Envelope, KernelswarmError, NodeDiagnosed, ReplayDivergence, Verdict, encode
from kernelswarm.sessions.re_evaluation import ReEvaluatedCandidate, compared
from kernelswarm.store import log_path


@pytest.fixture(scope="module")
def all_of_them(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A log with every history, and session ids by history."""
    home, session_ids = tmp_path_factory.mktemp("histories"), {}
    for name in histories.names():
        for session, events in histories.read(name).items():
            histories.into_log(home, events)
            session_ids[name.removeprefix("v1-")] = session
    return log_path(home), session_ids


@pytest.fixture
def sessions(home: Path, all_of_them: tuple[Path, dict[str, str]]) -> dict[str, str]:
    """Session ids by history, all of them in one log."""
    log, session_ids = all_of_them
    home.mkdir()
    shutil.copy(log, log_path(home))
    return session_ids


def first_seq(wanted: str) -> int:
    """Where a history begins in the log that has them all."""
    before = itertools.takewhile(lambda name: name != wanted, histories.names())
    return 1 + sum(len(events) for name in before for events in histories.read(name).values())


def forged(home: Path) -> Envelope:
    """Log a session in which the first diagnosis is better than it was; the event in question."""
    (events,) = histories.read("v1-budget").values()
    at = next(i for i, envelope in enumerate(events) if isinstance(envelope.event(), NodeDiagnosed))
    event = msgspec.structs.replace(events[at].event(), fitness=99.0)  # type: ignore[type-var]
    events[at] = msgspec.structs.replace(events[at], body=msgspec.Raw(encode(event)))
    histories.into_log(home, events)
    return events[at]


def test_a_session_is_replayed_without_compiler_device_or_network(
    sessions: dict[str, str],
    kernelswarm: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    for session in sessions.values():
        ran = kernelswarm("replay", session)
        assert ran.status == 0 and ran.out.startswith(f"same  {session}") and ran.err == ""
    report = json.loads(kernelswarm("replay", sessions["budget"], "--json").out)
    assert report["status"] == "closed" and report["compared"]["distiller"] == 1 and report["unsaid"] == []


def test_a_divergence_shows_both_sides_and_exits_with_1(home: Path, kernelswarm: Callable[..., Any]) -> None:
    wrong = forged(home)
    ran = kernelswarm("replay", wrong.session)
    assert ran.status == 1
    assert f"diverges at event {wrong.id}" in ran.err and "fitness is 99.0 in the log" in ran.err
    recorded, replayed = ran.out.splitlines()
    assert '"fitness":99.0' in recorded and '"fitness":99.0' not in replayed and "node.diagnosed.v1" in replayed
    report = json.loads(kernelswarm("replay", wrong.session, "--json").out)
    assert report["diverged"] and report["event"] == wrong.id and report["recorded"] == bytes(wrong.body).decode()


@pytest.mark.parametrize(
    "command", [["replay"], ["replay", "--effects", "live"], ["resume"], ["fork", "--node", "n001", "--budget", "1"]]
)
def test_a_log_that_is_not_what_was_written_is_refused_with_its_first_bad_event(
    command: list[str], home: Path, kernelswarm: Callable[..., Any]
) -> None:
    (events,) = histories.read("v1-killed").values()
    histories.into_log(home, events)
    with duckdb.connect(log_path(home)) as con:
        con.execute("DROP TRIGGER no_update ON events")
        con.execute("UPDATE events SET body = replace(body, 'memory', 'compute') WHERE seq = 6")
        con.execute("UPDATE events SET worker = 'other' WHERE seq = 9")
    before = log_path(home).read_bytes()
    name, *options = command
    ran = kernelswarm(name, events[0].session, *options)
    assert (ran.status, ran.out) == (2, "")
    assert f"The log is damaged from event 6 ({events[5].id})" in ran.err and "Traceback" not in ran.err
    assert log_path(home).read_bytes() == before and not (home / "nats").exists()


def test_it_stops_at_an_event_named_by_seq_id_or_beginning(
    sessions: dict[str, str], kernelswarm: Callable[..., Any]
) -> None:
    (events,) = histories.read("v1-budget").values()
    envelope = events[19]
    for name in (str(first_seq("v1-budget") + 19), envelope.id, envelope.id[:10]):
        ran = kernelswarm("replay", sessions["budget"], "--to", name)
        assert ran.status == 0 and f"20 events fed up to event {envelope.id}" in ran.out and "next:" in ran.out


@pytest.mark.parametrize("command", [["replay", "--to"], ["fork", "--at"]])
def test_a_place_that_is_not_the_sessions_is_no_beginning_of_an_id(
    command: list[str], sessions: dict[str, str], kernelswarm: Callable[..., Any]
) -> None:
    (events,) = histories.read("v1-minutes").values()
    first = first_seq("v1-minutes")
    last = first + len(events) - 1
    sequences = {str(seq) for seq in range(first, last + 1)}
    place = next(
        envelope.id[:digits]
        for digits in (1, 2, 3)
        for envelope in events
        if _is_a_place(envelope.id[:digits], sequences)
    )
    name, option = command
    ran = kernelswarm(name, sessions["minutes"], option, place)
    assert ran.status == 2 and f"has no event '{place}'; its events have seq {first} to {last}" in ran.err
    (others,) = histories.read("v1-budget").values()
    for of_another in (str(first_seq("v1-budget") + 19), others[19].id):
        ran = kernelswarm(name, sessions["minutes"], option, of_another)
        assert ran.status == 2 and f"to {last}; it is one of session {sessions['budget']}" in ran.err


def test_diff_says_in_words_what_it_counts(sessions: dict[str, str], kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("diff", sessions["budget"], sessions["authors"])
    assert "8 judged, 6 correct, 3 wins" in ran.out and "author  " in ran.out and "playbook" not in ran.out


def _is_a_place(text: str, sequences: set[str]) -> bool:
    return text.isdecimal() and text not in sequences


def test_it_is_played_at_a_multiple_of_recorded_time(sessions: dict[str, str], kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("replay", sessions["budget"], "--speed", "100x")
    assert f"session {sessions['budget']}" in ran.err and "baselines: eager" in ran.err and "n008" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "there is no session 'nosuch'"),
        (["SESSION", "--to", "9999"], "has no event '9999'; its events have seq"),
        (["SESSION", "--speed", "fast"], "speed 'fast' is no multiple of recorded time"),
        (["SESSION", "--speed", "0x"], "speed '0x'"),
        (["SESSION", "--pool", "cpu"], "needs --effects live"),
        (["SESSION", "--effects", "live", "--speed", "2x"], "choose one"),
        (["SESSION", "--effects", "live", "--pool", "nosuch"], "nosuch"),
    ],
)
def test_bad_input_is_named(
    arguments: list[str], message: str, sessions: dict[str, str], kernelswarm: Callable[..., Any]
) -> None:
    ran = kernelswarm("replay", *(sessions["budget"] if argument == "SESSION" else argument for argument in arguments))
    assert (ran.status, ran.out) == (2, "") and message in ran.err and "Traceback" not in ran.err


def test_live_effects_say_what_must_not_be_read_into_two_speedups(capsys: pytest.CaptureFixture[str]) -> None:
    def re_evaluated(node: str, then: float, now: float, against: str) -> ReEvaluatedCandidate:
        return ReEvaluatedCandidate(
            node=node,
            rank=int(node[1:]),
            recorded=given.interval(then),
            against="compile",
            verdict=Verdict.correct,
            now=given.interval(now),
            against_now=against,
        )

    judged = [
        re_evaluated("n1", 2.0, 2.01, "compile"),
        re_evaluated("n2", 1.9, 1.2, "eager"),
        re_evaluated("n3", 1.8, 1.5, "compile"),
    ]
    print_re_evaluation(compared("s-1", "here", "far", "there", judged))
    rows: dict[str, str] = {}
    for line in capsys.readouterr().out.splitlines():
        rows.setdefault(line.split()[0], line)
    assert rows["n1"].split("torch.compile")[2].strip() == "within the noise"
    assert rows["n2"].split("eager")[1].strip() == "other baseline"
    assert rows["n3"].split("torch.compile")[2].strip() == ""
    assert rows["other"].startswith("other baseline: another baseline is the best one now")
    assert rows["within"].startswith("within the noise: the two intervals overlap")


def test_the_nearest_session_is_named(sessions: dict[str, str], kernelswarm: Callable[..., Any]) -> None:
    session = sessions["budget"]
    for command in (["replay", session[:-1]], ["diff", session, session[:-1]], ["resume", session[:-1]]):
        ran = kernelswarm(*command)
        assert ran.status == 2 and f"did you mean {session!r}" in ran.err


def test_two_sessions_are_held_against_each_other(sessions: dict[str, str], kernelswarm: Callable[..., Any]) -> None:
    first, second = sessions["budget"], sessions["minutes"]
    ran = kernelswarm("diff", first, second)
    assert ran.status == 0 and "seed" in ran.out and "decisions part at number" in ran.out
    comparison = json.loads(kernelswarm("diff", first, second, "--json").out)
    assert (
        comparison["asked"]["seed"] == [3, 6] and comparison["asked"]["budget"] == [8, 40] and comparison["comparable"]
    )
    assert comparison["divergence"]["a"] != comparison["divergence"]["b"]
    assert 1 <= comparison["a"]["candidates_to_best"] <= 8 and comparison["a"]["speedup"]["median"] > 0
    same = json.loads(kernelswarm("diff", first, first, "--json").out)
    assert same["asked"] == {} and same["divergence"] is None and same["better"] == ""


def test_a_closed_session_says_that_it_is_closed(sessions: dict[str, str], kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("resume", sessions["budget"])
    assert ran.status == 1 and f"session {sessions['budget']} is closed: " in ran.err


def test_what_cannot_be_resumed_is_refused_without_a_server(
    home: Path, sessions: dict[str, str], kernelswarm: Callable[..., Any]
) -> None:
    for session, status in ((sessions["budget"], 1), ("nosuch-abcde", 2)):
        ran = kernelswarm("resume", session)
        assert (ran.status, ran.out, len(ran.err.splitlines())) == (status, "", 1)
    assert not (home / "nats").exists()


def test_without_a_log_there_is_nothing_to_resume(home: Path, kernelswarm: Callable[..., Any]) -> None:
    ran = kernelswarm("resume", "nosuch-abcde")
    assert ran.status == 2 and "there is no session 'nosuch-abcde': no sessions in" in ran.err
    assert not (home / "nats").exists()


def test_the_same_from_python(home: Path, sessions: dict[str, str]) -> None:
    assert kernelswarm.replay(sessions["failures"]).status == "closed"
    assert kernelswarm.diff(sessions["failures"], sessions["killed"]).b.status == "open"
    with pytest.raises(KernelswarmError, match="is closed"):
        kernelswarm.resume(sessions["failures"])


def test_a_divergence_from_python(home: Path) -> None:
    wrong = forged(home)
    with pytest.raises(ReplayDivergence) as caught:
        kernelswarm.replay(wrong.session)
    assert caught.value.event == wrong.id and caught.value.recorded != caught.value.replayed
