"""The server dies under everybody's feet, and nothing is lost or said twice."""

import asyncio
from pathlib import Path

import pytest
from waiting import LIMIT_S, eventually, within

from kernelswarm.bus import Bus, embedded
from kernelswarm.bus.server import Server
from kernelswarm.schemas import BusError, StopRequested
from kernelswarm.tests.chaos.disk import Disk

STOP = [StopRequested]


async def test_publishing_through_a_restart_stores_every_event_once(bus, event, kill_server):
    events = [event() for _ in range(2000)]
    publishing = asyncio.create_task(bus.publish_many(events))
    await bus.publish(event())
    kill_server()
    sequences = await within(publishing)
    stored = {seq: envelope.id for seq, envelope in await within(bus.history("s1"))}
    assert len(stored) == 2001
    assert [stored[seq] for seq in sequences] == [envelope.id for envelope in events]


async def test_an_id_is_remembered_across_a_restart(bus, event, kill_server):
    envelope = event()
    first = await bus.publish(envelope)
    kill_server()
    assert await within(bus.publish(envelope)) == first
    assert len(await within(bus.history("s1"))) == 1


async def test_a_worker_that_waits_is_served_after_a_restart(bus, event, kill_server):
    async with bus.consume("cpu", "compiler", STOP) as consumer, bus.tail(session="s1") as tail:
        waiting = [asyncio.create_task(anext(consumer)), asyncio.create_task(anext(tail))]
        await bus.history("s1")
        kill_server()
        envelope = event()
        await within(bus.publish(envelope))
        delivery, (_, heard) = await within(asyncio.gather(*waiting))
    assert delivery.envelope == heard == envelope


async def test_consuming_through_a_restart_misses_nothing(bus, event, kill_server):
    events = [event() for _ in range(400)]
    publishing = asyncio.create_task(bus.publish_many(events))
    seen: set[str] = set()
    async with bus.consume("cpu", "compiler", STOP, max_in_flight=8, ack_wait_s=1) as consumer:
        async with asyncio.timeout(LIMIT_S):
            async for delivery in consumer:
                seen.add(delivery.envelope.id)
                await delivery.ack()
                if len(seen) == 50:
                    kill_server()
                if len(seen) == len(events):
                    break
    await within(publishing)
    assert seen == {envelope.id for envelope in events}


async def test_a_tail_through_restarts_is_gapless_and_in_order(bus, event, kill_server):
    heard = []

    async def listen() -> None:
        async with bus.tail() as tail:
            async for seq, _ in tail:
                heard.append(seq)
                if len(heard) in (100, 300):
                    kill_server()
                if len(heard) == 600:
                    return

    await within(asyncio.gather(listen(), bus.publish_many([event() for _ in range(600)])))
    assert heard == list(range(1, 601))


async def test_a_service_and_artifacts_live_on_after_a_restart(bus, kill_server, event):
    async def echo(payload: bytes) -> bytes:
        return payload

    await bus.serve("sql", echo)
    artifact = await bus.put_artifact(b"x" * 1000, name="a", media_type="x")
    kill_server()
    await within(bus.publish(event()))
    assert await within(bus.get_artifact(artifact.sha256)) == b"x" * 1000
    assert await within(bus.request("sql", b"hello", LIMIT_S)) == b"hello"


async def test_a_server_that_stays_away_ends_everything_with_one_sentence(tmp_path, event):
    lock = (tmp_path / "lock").open("w")
    server = Server(tmp_path, lock.fileno())
    await server.start()
    bus = await Bus.connect(server.url, name="test", patience=0.5)
    consumer, tail = await bus.consume("cpu", "compiler", STOP).start(), bus.tail()
    waiting = [asyncio.create_task(anext(consumer)), asyncio.create_task(anext(tail))]
    await bus.history("s1")
    await server.stop()
    waiting.append(asyncio.create_task(bus.publish(event())))
    for task in waiting:
        with pytest.raises(BusError, match=r"127\.0\.0\.1:\d+ went away and did not come back within"):
            await within(task)
    await within(bus.close())
    lock.close()


def says_full(log: Path) -> bool:
    """The server tells nobody but its log."""
    return b"no space" in log.read_bytes()


async def test_a_server_whose_disk_was_full_stores_again_once_there_is_room(tmp_path, event):
    (tmp_path / "nats").mkdir()
    with Disk.under(tmp_path / "nats") as disk:
        if disk.reason:
            pytest.skip(disk.reason)
        async with embedded(tmp_path) as url, await Bus.connect(url, name="test") as bus:
            await bus.publish(event())
            disk.fill()
            storing = asyncio.create_task(bus.publish(event(StopRequested(reason="x" * 100_000))))
            log = tmp_path / "nats" / "server.log"
            assert await eventually(lambda: asyncio.to_thread(says_full, log), True)
            disk.free()
            assert await within(storing) > 1
            assert len(await bus.history("s1")) == 2
