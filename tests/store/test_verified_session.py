"""Whatever is changed among what a session's reading rests on, its verified reading names the first bad event."""

import asyncio
import shutil
from collections.abc import Callable
from itertools import chain, zip_longest
from pathlib import Path

import duckdb
import pytest
from story import story, wire
from waiting import LIMIT_S

from kernelswarm.bus import Bus
from kernelswarm.schemas import Envelope, LogCorrupted
from kernelswarm.store import Log, UnknownSession, log_path, pages, read_recorded, recording
from kernelswarm.store.chain import Row, link
from kernelswarm.store.verified_session import verified_in

AROUND = 5
"""Events of other sessions before and after."""

FIRST = AROUND + 1
"""Position of the session's first event; those of another session stand between its events, which are two apart."""

LENGTH = len(story())
LAST = FIRST + 2 * (LENGTH - 1)
MIDDLE = FIRST + LENGTH // 2 * 2


def interleaved_envelopes(close: bool) -> list[Envelope]:
    mixed = zip_longest(story("rmsnorm-a1", close=close), story("other-b2"))
    within = [envelope for envelope in chain.from_iterable(mixed) if envelope is not None]
    return [*story("before-c3")[:AROUND], *within, *story("after-d4")[:AROUND]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Logs of sessions side by side, with the close of the first and without; anybody may change them."""
    logs = {}
    for close in (True, False):
        logs[close] = log_path(tmp_path_factory.mktemp("written"))
        with Log.open(logs[close]) as log:
            log.append(wire(interleaved_envelopes(close)), stream="a")
        with duckdb.connect(logs[close]) as con:
            con.execute("DROP TRIGGER no_update ON events")
            con.execute("DROP TRIGGER no_delete ON events")
    return logs


@pytest.fixture
def home_with(tmp_path: Path, written: dict[bool, Path]) -> Callable[..., Path]:
    """Makes a home with a log that was changed by ``statements``."""

    def make(*statements: str, close: bool = True) -> Path:
        shutil.copy(written[close], log_path(tmp_path))
        with duckdb.connect(log_path(tmp_path)) as con:
            for statement in statements:
                con.execute(statement)
        return tmp_path

    return make


@pytest.mark.parametrize("close", [True, False])
async def test_what_is_as_it_was_written_comes_out_as_without_the_check(home_with: Callable, close: bool) -> None:
    home = home_with(close=close)
    for session in ("rmsnorm-a1", "other-b2", "before-c3", "after-d4"):
        plain = await read_recorded(home, session)
        assert await read_recorded(home, session, verify=True) == plain
    with pytest.raises(UnknownSession):
        await read_recorded(home, "nosuch", verify=True)


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        (f"UPDATE events SET body = replace(body, '1', '2') WHERE seq = {MIDDLE}", MIDDLE),
        (f"UPDATE events SET cause = 'other' WHERE seq = {MIDDLE}", MIDDLE),
        (f"UPDATE events SET worker = 'other' WHERE seq = {FIRST}", FIRST),
        (f"UPDATE events SET body = replace(body, 'a', 'b') WHERE seq = {LAST}", LAST),
        (f"UPDATE events SET wire = '{{}}' WHERE seq = {MIDDLE}", MIDDLE),
        (f"UPDATE events SET session = 'other-b2' WHERE seq = {MIDDLE}", MIDDLE),
        (f"UPDATE events SET session = 'other-b2' WHERE seq = {FIRST}", FIRST),
        (f"UPDATE events SET session = 'other-b2' WHERE seq >= {LAST - 6} AND session = 'rmsnorm-a1'", LAST - 6),
        (f"UPDATE events SET session = 'rmsnorm-a1' WHERE seq = {MIDDLE + 1}", MIDDLE + 1),
        ("UPDATE events SET session = 'rmsnorm-a1' WHERE seq = 2", 2),
        (f"UPDATE events SET hash = repeat('0', 64) WHERE seq = {LAST}", LAST),
        (f"DELETE FROM events WHERE seq = {MIDDLE}", MIDDLE),
        (f"DELETE FROM events WHERE seq = {MIDDLE + 1}", MIDDLE + 1),
        (f"DELETE FROM events WHERE seq >= {LAST}", LAST),
        (f"UPDATE events SET seq = 2 * {MIDDLE} + 2 - seq WHERE seq IN ({MIDDLE}, {MIDDLE + 2})", MIDDLE),
        (f"UPDATE events SET seq = 0 WHERE seq = {MIDDLE}", 1),
        (f"INSERT INTO events SELECT * FROM events WHERE seq = {MIDDLE}", MIDDLE + 1),
    ],
)
async def test_the_first_bad_event_is_named(home_with: Callable, statement: str, seq: int) -> None:
    home = home_with(statement)
    before = log_path(home).read_bytes()
    with pytest.raises(LogCorrupted, match=f"damaged from event {seq} "):
        await read_recorded(home, "rmsnorm-a1", verify=True)
    assert log_path(home).read_bytes() == before


async def test_a_log_that_lost_its_end_is_seen_by_a_session_that_has_none(home_with: Callable) -> None:
    gone = len(interleaved_envelopes(close=False)) - 1
    home = home_with(f"DELETE FROM events WHERE seq >= {gone}", close=False)
    with pytest.raises(LogCorrupted, match=f"damaged from event {gone} "):
        await read_recorded(home, "rmsnorm-a1", verify=True)


async def test_a_forged_event_with_a_hash_of_its_own_is_named_by_the_one_behind_it(home_with: Callable) -> None:
    home = home_with()
    with Log.open(log_path(home), read_only=True) as log, log.cursor() as cursor:
        rows = cursor.execute(f"SELECT * FROM events WHERE seq IN ({LAST - 1}, {LAST}) ORDER BY seq").fetchall()
    before, last = map(Row._make, rows)
    forged = link(last._replace(body=last.body.replace("3.2", "9.2")), LAST, before.hash)
    with duckdb.connect(log_path(home)) as con:
        con.execute("UPDATE events SET body = ?, hash = ? WHERE seq = ?", [forged.body, forged.hash, LAST])
    with pytest.raises(LogCorrupted, match=f"damaged from event {LAST + 1} "):
        await read_recorded(home, "rmsnorm-a1", verify=True)


@pytest.mark.parametrize("read_only", [True, False])
def test_sessions_are_read_one_after_the_other_from_one_open_log(home_with: Callable, read_only: bool) -> None:
    with Log.open(log_path(home_with()), read_only=read_only) as log:
        for session, length in (("rmsnorm-a1", LENGTH), ("nosuch", 0), ("before-c3", None), ("rmsnorm-a1", LENGTH)):
            entries = list(verified_in(log, session))
            assert {envelope.session for _, envelope in entries} == ({session} if length != 0 else set())
            assert length is None or len(entries) == length


async def test_what_is_elsewhere_in_the_log_is_for_verify(home_with: Callable) -> None:
    home = home_with("UPDATE events SET worker = 'other' WHERE seq IN (1, 2)")
    assert len(await read_recorded(home, "rmsnorm-a1", verify=True)) == LENGTH
    with pytest.raises(LogCorrupted, match="damaged from event 1 "):
        await read_recorded(home, "before-c3", verify=True)


@pytest.mark.parametrize("statement", ["", f"UPDATE events SET session = 'other-b2' WHERE seq = {MIDDLE}"])
async def test_it_is_verified_through_a_recorder_too(
    home_with: Callable, tmp_path: Path, bus: Bus, statement: str
) -> None:
    home = home_with(*filter(None, [statement]))
    async with asyncio.timeout(LIMIT_S), recording(home, bus) as recorder:
        await recorder.started.wait()
        reading = read_recorded(tmp_path / "far", "rmsnorm-a1", bus=bus, verify=True)
        if not statement:
            assert len(await reading) == LENGTH
            return
        with pytest.raises(LogCorrupted, match=f"damaged from event {MIDDLE} "):
            await reading


async def test_pages_come_from_one_log_though_recorders_of_two_share_a_bus(
    home_with: Callable, tmp_path: Path, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SPAN", 4)
    home = home_with()
    plain = await read_recorded(home, "rmsnorm-a1")
    (tmp_path / "other").mkdir()
    with Log.open(log_path(tmp_path / "other")) as log:
        log.append(wire(story("rmsnorm-a1")), stream="a")
    async with asyncio.timeout(LIMIT_S), recording(home, bus) as first, recording(tmp_path / "other", bus) as second:
        await first.started.wait()
        await second.started.wait()
        for _ in range(3):
            entries = await read_recorded(tmp_path / "far", "rmsnorm-a1", bus=bus, verify=True)
            assert [envelope for _, envelope in entries] == [envelope for _, envelope in plain]
