"""The recorder between a real server and a real file."""

import asyncio
import itertools
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from story import story
from waiting import LIMIT_S, within

from given import envelope_of
from kernelswarm.bus import Bus, embedded, running
from kernelswarm.schemas import BusError, Envelope, InputError, StopRequested, StoreError, encode
from kernelswarm.store import Log, Recorder, log_path, query, recording, run_sql, show, wait_recorded
from kernelswarm.store.recorder import BATCH

numbers = itertools.count()

OTHER = """
import asyncio
from pathlib import Path
from kernelswarm.bus import Bus, embedded
from kernelswarm.store import recording, run_sql

async def main(home, url, what):
    async with await Bus.connect(url, name="other") as bus:
        if what == "ask":
            async with asyncio.timeout(60):
                print((await run_sql(home, "SELECT count(*) FROM events", bus=bus)).rows[0][0], flush=True)
                print((await run_sql(home, "SELECT count(*) FROM events")).rows[0][0], flush=True)
            return
        async with recording(home, bus) as recorder:
            if what == "record":
                await recorder.started.wait()
            print("there", flush=True)
            await asyncio.to_thread(sys.stdin.read)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
"""


@pytest.fixture
def url(tmp_path: Path, bus: Bus) -> str:
    """Where the test's server listens, with what it takes to get in."""
    return running(tmp_path) or ""


def some(count: int, session: str = "s-test1") -> list[Envelope]:
    return [envelope_of(StopRequested(reason="user"), session=session, index=next(numbers)) for _ in range(count)]


async def recorded(home: Path, bus: Bus, seq: int) -> list[str]:
    """Runs a recorder up to ``seq``; what the log holds then."""
    async with asyncio.timeout(LIMIT_S), recording(home, bus) as recorder:
        await recorder.recorded(seq)
    with Log.open(log_path(home)) as log:
        log.verify().check()
        return [envelope.id for _, envelope in log.read(limit=100_000)]


async def test_what_is_said_is_written_in_stream_order(tmp_path: Path, bus: Bus) -> None:
    envelopes = story("one") + story("two")
    last = (await bus.publish_many(envelopes))[-1]
    assert await recorded(tmp_path, bus, last) == [envelope.id for _, envelope in await bus.history(None)]
    with Log.open(log_path(tmp_path)) as log:
        assert [encode(envelope) for _, envelope in log.read()] == [
            encode(envelope) for _, envelope in await bus.history(None)
        ]


async def test_every_pool_and_more_than_a_batch(tmp_path: Path, bus: Bus) -> None:
    envelopes = some(BATCH + 50)
    last = max(await bus.publish_many(envelopes))
    assert set(await recorded(tmp_path, bus, last)) == {envelope.id for envelope in envelopes}


async def test_it_goes_on_where_it_stopped(tmp_path: Path, bus: Bus) -> None:
    envelopes = some(30)
    for start in (0, 10, 20):
        last = max(await bus.publish_many(envelopes[start : start + 10]))
        await recorded(tmp_path, bus, last)
    assert await recorded(tmp_path, bus, last) == [envelope.id for _, envelope in await bus.history(None)]


async def test_a_log_that_was_lost_is_written_again(tmp_path: Path, bus: Bus) -> None:
    last = max(await bus.publish_many(some(10)))
    before = await recorded(tmp_path, bus, last)
    log_path(tmp_path).unlink()
    assert await recorded(tmp_path, bus, last) == before


async def test_a_log_put_back_from_an_old_copy_is_completed(tmp_path: Path, bus: Bus) -> None:
    last = max(await bus.publish_many(some(10)))
    await recorded(tmp_path, bus, last)
    shutil.copy(log_path(tmp_path), tmp_path / "copy")
    last = max(await bus.publish_many(some(10)))
    ids = await recorded(tmp_path, bus, last)
    shutil.copy(tmp_path / "copy", log_path(tmp_path))
    assert await recorded(tmp_path, bus, last) == ids


async def test_a_stream_that_was_made_anew_brings_only_what_is_new(tmp_path: Path, bus: Bus, url: str) -> None:
    envelopes = some(10)
    await recorded(tmp_path, bus, max(await bus.publish_many(envelopes)))
    await bus._link.js.delete_stream("EVENTS")
    async with await Bus.connect(url, name="again") as again:
        envelopes += some(3)
        last = max(await again.publish_many(envelopes[5:]))
        assert last == 8
        assert set(await recorded(tmp_path, again, last)) == {envelope.id for envelope in envelopes}


async def test_a_stream_that_is_deleted_ends_it(tmp_path: Path, bus: Bus) -> None:
    with pytest.raises(BusError, match="has lost its stream EVENTS"):
        async with asyncio.timeout(LIMIT_S), recording(tmp_path, bus) as recorder:
            await recorder.recorded(max(await bus.publish_many(some(3))))
            await bus._link.js.delete_stream("EVENTS")
            await asyncio.Event().wait()


async def test_two_homes_on_one_bus_each_hear_everything(tmp_path: Path, bus: Bus) -> None:
    last = max(await bus.publish_many(some(20)))
    a, b = tmp_path / "a", tmp_path / "b"
    async with asyncio.timeout(LIMIT_S), recording(a, bus) as first, recording(b, bus) as second:
        await first.recorded(last)
        await second.recorded(last)
        last = await bus.publish(some(1)[0])
        await wait_recorded(a, bus, last)
        await wait_recorded(b, bus, last)
    for home in (a, b):
        assert (await run_sql(home, "SELECT count(*) FROM events")).rows == ((21,),)


async def test_nothing_is_acknowledged_before_it_is_written(
    tmp_path: Path, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = max(await bus.publish_many(some(5)))

    def full(*_: object, **__: object) -> int:
        raise StoreError("The disk is full")

    with monkeypatch.context() as patch, pytest.raises(StoreError, match="disk is full"):
        patch.setattr(Log, "append", full)
        async with asyncio.timeout(LIMIT_S), recording(tmp_path, bus):
            await asyncio.Event().wait()
    assert len(await recorded(tmp_path, bus, last)) == 5


async def test_a_cancelled_recorder_finishes_what_it_writes(
    tmp_path: Path, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    append = Log.append

    def slow(log: Log, *args: object, **more: object) -> int:
        loop.call_soon_threadsafe(writing.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        return append(log, *args, **more)

    monkeypatch.setattr(Log, "append", slow)
    await bus.publish_many(some(5))
    task = asyncio.create_task(Recorder(log_path(tmp_path), bus).run())
    await writing.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    with Log.open(log_path(tmp_path)) as log:
        assert len(log.read()) == 5


async def test_one_that_is_cancelled_while_it_opens_the_log_lets_go_of_it(
    tmp_path: Path, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, going, given = asyncio.Event(), threading.Event(), []
    loop, really = asyncio.get_running_loop(), Log.open

    def slowly(path: Path) -> Log:
        given.append(really(path))
        loop.call_soon_threadsafe(opened.set)
        going.wait(LIMIT_S)
        return given[-1]

    monkeypatch.setattr(Log, "open", slowly)
    running = asyncio.create_task(Recorder(log_path(tmp_path), bus).run())
    await within(opened.wait())
    running.cancel()
    loop.call_later(0.01, going.set)
    with pytest.raises(asyncio.CancelledError):
        await within(running)
    assert given[0].closed


async def test_what_is_no_event_does_not_stop_it(tmp_path: Path, bus: Bus) -> None:
    for data in (b"nonsense", b"{}", b"", b"\xff"):
        await bus._link.js.publish("ks.v1.s.cpu.x", data)
    last = await bus.publish(some(1)[0])
    assert len(await recorded(tmp_path, bus, last)) == 1


async def test_queries_while_it_records(tmp_path: Path, bus: Bus) -> None:
    async with asyncio.timeout(LIMIT_S), recording(tmp_path, bus) as recorder:
        await recorder.recorded((await bus.publish_many(story()))[-1])
        table = await run_sql(tmp_path, "SELECT session, speedup FROM sessions", bus=bus)
        assert table.rows == (("rmsnorm-a1", 3.2),)
        assert (await show(tmp_path, "rmsnorm-a1")).best_path == ("n1", "n2")


async def test_another_process_asks_the_recorder(tmp_path: Path, bus: Bus, url: str, python: Callable) -> None:
    async with asyncio.timeout(LIMIT_S), recording(tmp_path, bus) as recorder:
        await recorder.recorded(max(await bus.publish_many(some(7))))
        asker = await python(OTHER, tmp_path, url, "ask")
        assert [int(await asker.stdout.readline()) for _ in range(2)] == [7, 7], "with a bus, and by finding it"


async def test_a_home_without_a_log_asks_whoever_records(tmp_path: Path, bus: Bus, url: str, python: Callable) -> None:
    process = await python(OTHER, tmp_path / "far", url, "record")
    await process.stdout.readline()
    await wait_recorded(tmp_path / "far", bus, max(await bus.publish_many(some(3))))
    here = tmp_path / "here"
    assert (await run_sql(here, "SELECT count(*) FROM events", bus=bus)).rows == ((3,),)
    with pytest.raises(InputError, match="nope does not exist"):
        await run_sql(here, "FROM nope", bus=bus)
    with pytest.raises(InputError, match=r"took longer|kept the recorder busy"):
        await run_sql(here, "SELECT count(*) FROM range(10000000) a, range(10000000) b", bus=bus, timeout=0.2)
    megabytes = "SELECT string_agg(md5(i::VARCHAR), '') FROM range(1000000) r(i) GROUP BY i % 1000"
    with pytest.raises(InputError, match=r"the event bus carries .*: ask for less"):
        await run_sql(here, megabytes, bus=bus)


async def test_a_recorder_that_is_killed_while_it_is_asked_is_not_waited_for(
    tmp_path: Path, bus: Bus, url: str, python: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    far, looked = tmp_path / "far", asyncio.Event()
    is_there = query._is_there

    async def look(*arguments: Any) -> bool:
        looked.set()
        return await is_there(*arguments)

    monkeypatch.setattr(query, "_is_there", look)
    monkeypatch.setattr(query, "_LOOK_SECONDS", 0.2)
    process = await python(OTHER, far, url, "record")
    await process.stdout.readline()
    await wait_recorded(far, bus, max(await bus.publish_many(some(3))))
    process.send_signal(signal.SIGSTOP)
    answer = asyncio.create_task(run_sql(far, "SELECT count(*) FROM events", bus=bus, timeout=LIMIT_S))
    await within(looked.wait())
    process.kill()
    assert (await within(answer)).rows == ((3,),)
    with Log.open(log_path(far), read_only=True) as log:
        assert log.verify().check().events == 3


@pytest.mark.parametrize("end", ["closed", "killed"])
async def test_one_records_and_the_next_takes_over(
    tmp_path: Path, bus: Bus, url: str, python: Callable, end: str
) -> None:
    first = await python(OTHER, tmp_path, url, "record")
    await first.stdout.readline()
    envelopes = some(4)
    await wait_recorded(tmp_path, bus, max(await bus.publish_many(envelopes)))
    async with asyncio.timeout(LIMIT_S), recording(tmp_path, bus) as second:
        last = await bus.publish((envelopes := envelopes + some(1))[-1])
        await wait_recorded(tmp_path, bus, last)
        assert not second.started.is_set(), "the other one has the log"
        if end == "killed":
            first.kill()
        first.stdin.close()
        await second.started.wait()
        last = await bus.publish((envelopes := envelopes + some(1))[-1])
        await second.recorded(last)
    assert set(await recorded(tmp_path, bus, last)) == {envelope.id for envelope in envelopes}


async def test_a_reader_in_the_way_is_waited_for(tmp_path: Path, bus: Bus, python: Callable) -> None:
    last = max(await bus.publish_many(some(3)))
    await recorded(tmp_path, bus, last)
    code = "import duckdb; c = duckdb.connect(sys.argv[1], read_only=True); print(1, flush=True); sys.stdin.read()"
    reader = await python(code, log_path(tmp_path))
    await reader.stdout.readline()
    last = await bus.publish(some(1)[0])
    async with asyncio.timeout(LIMIT_S), recording(tmp_path, bus) as recorder:
        await asyncio.wait([asyncio.create_task(asyncio.sleep(0))])
        assert not recorder.started.is_set()
        reader.stdin.close()
        await recorder.recorded(last)


async def test_waiting_for_a_recorder_that_is_not_there(tmp_path: Path, bus: Bus) -> None:
    with pytest.raises(StoreError, match=r"has not written event 1 .* within 0.3 s"):
        await wait_recorded(tmp_path, bus, 1, timeout=0.3)


async def test_a_server_that_went_away_ends_it(tmp_path: Path) -> None:
    with pytest.raises(BusError):
        async with embedded(tmp_path) as url:
            bus = await Bus.connect(url, name="test", patience=0.3)
            async with recording(tmp_path, bus) as recorder:
                await recorder.started.wait()
                await bus.close()
                await asyncio.Event().wait()
    with Log.open(log_path(tmp_path)) as log:
        assert log.verify().ok
