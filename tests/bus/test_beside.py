"""What travels beside the stream: questions, artifacts, presence."""

import asyncio
import contextlib
import os
from typing import Self

import pytest
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from waiting import LIMIT_S, eventually

from kernelswarm.bus import Bus, NobodyServes, rpc
from kernelswarm.schemas import BusError, InputError, StoreError, sha256
from kernelswarm.schemas.presence import WorkerPresence


async def test_a_question_is_answered_by_who_serves_it(bus, url):
    async def double(payload: bytes) -> bytes:
        return payload * 2

    async with await Bus.connect(url, name="asker") as asker:
        await bus.serve("sql", double)
        assert await asker.request("sql", b"ab", LIMIT_S) == b"abab"


async def test_a_slow_answer_keeps_no_other_waiting(bus):
    release = asyncio.Event()

    async def serve(payload: bytes) -> bytes:
        if payload == b"slow":
            await release.wait()
        return payload

    await bus.serve("sql", serve)
    slow = asyncio.create_task(bus.request("sql", b"slow", LIMIT_S))
    assert await bus.request("sql", b"fast", LIMIT_S) == b"fast"
    assert not slow.done()
    release.set()
    assert await slow == b"slow"


async def test_nobody_serves_it(bus):
    with pytest.raises(NobodyServes, match="'sql'"):
        await bus.request("sql", b"", LIMIT_S)


async def test_a_service_that_was_closed_serves_no_more(bus):
    async def echo(payload: bytes) -> bytes:
        return payload

    service = await bus.serve("sql", echo)
    await service.aclose()
    with pytest.raises(NobodyServes):
        await bus.request("sql", b"", LIMIT_S)


async def test_the_asker_hears_what_went_wrong(bus):
    async def serve(payload: bytes) -> bytes:
        if payload == b"refused":
            raise StoreError("table 'x' is not there")
        if payload == b"large":
            return b"x" * (9 << 20)
        if payload == b"never":
            await asyncio.Event().wait()
        raise ZeroDivisionError

    await bus.serve("sql", serve)
    with pytest.raises(StoreError, match="table 'x' is not there"):
        await bus.request("sql", b"refused", LIMIT_S)
    with pytest.raises(InputError, match="ask for less"):
        await bus.request("sql", b"large", LIMIT_S)
    with pytest.raises(BusError, match="ZeroDivisionError"):
        await bus.request("sql", b"defect", LIMIT_S)
    with pytest.raises(BusError, match=r"did not answer within 0\.05 s"):
        await bus.request("sql", b"never", 0.05)
    with pytest.raises(BusError, match="cannot be asked"):
        await bus.request("sql", b"x" * (9 << 20), LIMIT_S)


@pytest.mark.parametrize("size", [0, 1, 60_000, 1_000_000])
async def test_artifacts_come_back_whole(bus, size):
    data = os.urandom(size)
    artifact = await bus.put_artifact(data, name="kernel.so", media_type="application/x-sharedlib")
    assert (artifact.sha256, artifact.size, artifact.name) == (sha256(data), size, "kernel.so")
    assert await bus.get_artifact(artifact.sha256) == data


async def test_the_same_artifact_from_many_workers_is_one(bus):
    data = os.urandom(300_000)
    put = [bus.put_artifact(data, name=f"{n}.so", media_type="x") for n in range(4)]
    assert {artifact.sha256 for artifact in await asyncio.gather(*put)} == {sha256(data)}
    assert await bus.get_artifact(sha256(data)) == data


async def test_an_artifact_that_was_never_put(bus):
    with pytest.raises(BusError, match="holds no artifact"):
        await bus.get_artifact("0" * 64)
    with pytest.raises(InputError, match="not a sha256"):
        await bus.get_artifact("../../etc/passwd")


async def test_a_roll_call_finds_the_workers_of_every_process(bus, url):
    def worker(name: str, *, busy: bool = False) -> WorkerPresence:
        return WorkerPresence(worker=name, role="compiler", pool="cpu", host="h", pid=1, busy=busy)

    async with await Bus.connect(url, name="other") as second:
        await bus.heartbeat(worker("b"))
        await second.heartbeat(worker("a"))
        await second.heartbeat(worker("a", busy=True))
        await second.heartbeat(worker("gone"))
        second.leave("gone")
        both = [worker("a", busy=True), worker("b")]
        assert await eventually(lambda: bus.workers(0.1), both) == both
    assert await eventually(lambda: bus.workers(0.1), [worker("b")]) == [worker("b")]


async def test_nothing_of_it_is_stored(bus):
    await bus.heartbeat(WorkerPresence(worker="w", role="compiler", pool="cpu", host="h", pid=1))
    with pytest.raises(NobodyServes):
        await bus.request("sql", b"", LIMIT_S)
    assert await bus.history(None) == []


@pytest.mark.parametrize("refused", [False, True])
async def test_a_cancellation_that_comes_with_the_answer_is_not_forgotten(refused: bool) -> None:
    requested = asyncio.Event()

    class Forgetful:
        """Does as Python 3.11's wait_for when it is cancelled in the moment of the answer."""

        url = "nats://nowhere"

        async def connected(self) -> None: ...

        @property
        def nc(self) -> Self:
            return self

        async def request(self, *_: object, **__: object) -> Msg:
            requested.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            if refused:
                raise NoRespondersError
            return Msg(_client=None, data=b"4")  # type: ignore[arg-type]

    asking = asyncio.create_task(rpc.request(Forgetful(), "sql", b"2", LIMIT_S))  # type: ignore[arg-type]
    await requested.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
