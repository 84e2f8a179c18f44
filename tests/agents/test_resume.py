"""Resume: an open session goes on where it was, and comes out as its own replay; real server, real processes."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import histories
import msgspec
import pytest
from waiting import has_ended

from kernelswarm.cli.main import run
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.knowledge import shipped_skills
from kernelswarm.schemas import (
    CandidateProposed,
    CandidateVerified,
    Envelope,
    InputError,
    KernelswarmError,
    NodePlanned,
    SessionClosed,
    SkillDistilled,
    StopRequested,
    encode,
    seal,
)
from kernelswarm.sessions.recorded_session import read_session
from kernelswarm.sessions.replay import ReplayReport, replay
from kernelswarm.sessions.results import SearchResult
from kernelswarm.sessions.resume import AlreadyClosed, resuming, standing
from kernelswarm.store import Log, log_path

ONE_SEARCH = Path(__file__).parent.parent / "support" / "one_search.py"


def with_pool(home: Path) -> Path:
    """With the pool that histories were recorded on: timed against eager alone."""
    (home / "pools").mkdir()
    (home / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    return home


class Killed(NamedTuple):
    """A home as a search left it that was killed."""

    home: Path
    session: str


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    home = with_pool(tmp_path_factory.mktemp("killed"))
    detect(find_pool("bare", home), home)  # measures the machine, which the search would do first
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELSWARM_NATS_ACK_WAIT", "5")
        yield Killed(home, asyncio.run(search_and_kill(home)))


async def search_and_kill(home: Path) -> str:
    """Its session; when its server is gone, too."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(ONE_SEARCH), str(home), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    session = (await child.stdout.readline()).decode().strip()
    assert (await child.stdout.readline()).strip() == b"enough"
    server = os.pidfd_open(json.loads((home / "nats" / "run.json").read_text())["server"])
    child.kill()
    await child.wait()
    ended = await asyncio.to_thread(has_ended, server)
    os.close(server)
    assert ended
    return session


def history(name: str) -> list[Envelope]:
    (events,) = histories.read(name).values()
    return events


async def resumed(home: Path, session: str) -> SearchResult:
    async with resuming(session, home=home) as search:
        async for _ in search.events():
            pass
        return search.result()


async def replayed(home: Path, session: str) -> ReplayReport:
    recorded = await read_session(home, session)
    ids = [envelope.id for _, envelope in recorded.events]
    assert len(ids) == len(set(ids))
    with Log.open(log_path(home), read_only=True) as log:
        assert log.verify().ok
    return replay(session, recorded.events, before=recorded.before)


@pytest.mark.thorough
async def test_a_session_whose_servers_data_is_gone_goes_on_from_the_log(tmp_path: Path) -> None:
    home = with_pool(tmp_path)
    events = history("v1-killed")
    histories.into_log(home, events)
    session = events[0].session
    result = await resumed(home, session)
    assert result.reason == "budget" and result.candidates == 12
    report = await replayed(home, session)
    assert report.status == "closed" and report.unsaid == ()
    after = (await read_session(home, session)).events
    assert [envelope.id for _, envelope in after][: len(events)] == [envelope.id for envelope in events]
    # What had its answer was not asked for again: each plan has one candidate, and the recorded ones are kept.
    planned = [envelope.id for _, envelope in after if isinstance(envelope.event(), NodePlanned)]
    answered = [envelope.cause for _, envelope in after if isinstance(envelope.event(), CandidateProposed)]
    assert sorted(answered) == sorted(planned)


async def test_a_session_whose_pool_is_not_known_here_starts_no_server(tmp_path: Path) -> None:
    events = history("v1-killed")
    histories.into_log(tmp_path, events)
    with pytest.raises(InputError, match=r"no pool is called 'bare'.+; or `kernelswarm resume \S+ --close` ends"):
        await resumed(tmp_path, events[0].session)
    assert not (tmp_path / "nats").exists()


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(False, id="server-data-kept"),
        pytest.param(True, id="server-data-and-artifacts-lost", marks=pytest.mark.thorough),
    ],
)
async def test_a_session_that_was_killed_goes_on_where_it_was(killed: Killed, tmp_path: Path, lost: bool) -> None:
    home, session = tmp_path / "home", killed.session
    shutil.copytree(killed.home, home)
    if lost:
        shutil.rmtree(home / "nats")
        shutil.rmtree(home / "artifacts")
    before = len((await read_session(home, session)).events)
    result = await resumed(home, session)
    assert result.reason == "budget" and result.candidates == 5
    report = await replayed(home, session)
    assert report.status == "closed" and report.events > before and report.unsaid == ()


def test_a_session_whose_device_is_gone_is_closed_with_what_it_has_and_teaches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = "norm_gate_train-tsad3"  # on an H200 of a pool that is not known here
    events = histories.read("v3-authors")[session]
    histories.into_log(tmp_path, events)
    monkeypatch.setenv("KERNELSWARM_HOME", str(tmp_path))
    assert run(["resume", session, "--close", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["best"], result["win"]) == ("n009", True) and (tmp_path / "sessions" / session / "best.py").exists()
    after = [envelope.event() for _, envelope in asyncio.run(read_session(tmp_path, session)).events[len(events) :]]
    assert [type(event) for event in after] == [StopRequested, SessionClosed, SkillDistilled]
    assert after[-1].skill.id in {skill.id for skill in shipped_skills()}
    assert asyncio.run(replayed(tmp_path, session)).status == "closed"
    assert run(["resume", session, "--close"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"`kernelswarm show {session} --file` prints its finished kernel. A new session goes on" in said


def test_a_session_that_is_closed_before_its_first_timing_names_what_was_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events = history("v1-killed")
    end = next(number for number, envelope in enumerate(events, 1) if isinstance(envelope.event(), CandidateVerified))
    histories.into_log(tmp_path, events[:end])
    monkeypatch.setenv("KERNELSWARM_HOME", str(tmp_path))
    assert run(["resume", events[0].session, "--close"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{events[end - 1].node}: verified as correct, but not timed" in shown
    assert "ended: interrupted" in shown and " in 0 s" not in shown


def test_a_closed_session_is_not_resumed() -> None:
    events = history("v1-budget")
    with pytest.raises(AlreadyClosed, match=f"session {events[0].session} is closed"):
        standing(events[0].session, events)


def test_a_closed_session_without_its_skill_is_finished() -> None:
    events = history("v1-budget")[:-1]
    assert standing(events[0].session, events).graph.closed is not None


def test_what_has_its_answer_is_known_by_role() -> None:
    events = history("v1-killed")
    status = standing(events[0].session, events)
    plans = {envelope.id for envelope in events if isinstance(envelope.event(), NodePlanned)}
    proposed = {envelope.cause for envelope in events if isinstance(envelope.event(), CandidateProposed)}
    assert status.answered["synthesizer"] == proposed <= plans
    assert events[0].id in status.answered["planner"]
    # A planner that was cut off between two of its decisions answers once more: the ids tell the copies.
    cut = events[: next(i for i, envelope in enumerate(events) if envelope.cause == events[0].id) + 1]
    assert events[0].id not in standing(events[0].session, cut).answered.get("planner", ())


@pytest.mark.parametrize("reason", ["minutes", "target"])
def test_time_that_was_spent_is_not_given_again(reason: str) -> None:
    events = history("v1-killed")
    opened = events[0].event()
    assert opened is not None and standing(events[0].session, events).minutes_left is None
    limited = limited_to(events, 10.0)
    left = standing(events[0].session, limited).minutes_left
    assert left is not None and 9.0 < left < 10.0
    stop = seal(
        StopRequested(reason=reason),
        session=events[0].session,
        pool="bare",
        node="",
        cause="timer",
        agent="user",
        worker="user",
        at_ns=limited[-1].at_ns,
    )
    assert standing(events[0].session, [*limited, stop]).minutes_left is None
    # With a deadline the timer has to speak once more.
    limited = limited_to(events, 10.0, reserve=1.0)
    assert standing(events[0].session, [*limited, stop]).minutes_left == pytest.approx(left, abs=0.1)


def limited_to(events: list[Envelope], minutes: float, reserve: float = 0.0) -> list[Envelope]:
    opened = msgspec.structs.replace(events[0].event(), minutes=minutes, reserve=reserve)  # type: ignore[type-var]
    return [msgspec.structs.replace(events[0], body=msgspec.Raw(encode(opened))), *events[1:]]


def test_a_session_that_this_version_would_go_on_with_otherwise_is_refused() -> None:
    events = history("v1-killed")
    altered = msgspec.structs.replace(
        events[0], body=msgspec.Raw(bytes(events[0].body).replace(b'"seed":7', b'"seed":8', 1))
    )
    with pytest.raises(KernelswarmError, match=r"cannot be resumed, this version would go on otherwise .* fork it"):
        standing(events[0].session, [altered, *events[1:]])
