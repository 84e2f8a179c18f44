"""The connection breaks while the server lives on: what was on its way is lost, and is read again."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from waiting import within

from kernelswarm.bus import Bus
from kernelswarm.bus.bulk import BulkConsumer, ConsumerGone
from kernelswarm.schemas import StopRequested


class Wire:
    """A TCP connection through us, that can swallow what the server says, and be cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._pumps: set[asyncio.Task] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._swallow = False

    def swallow(self) -> None:
        self._swallow = True

    def cut(self) -> None:
        self._swallow = False
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        self._writers += [writer, back]
        for source, sink, swallowed in ((reader, back, False), (there, writer, True)):
            task = asyncio.create_task(self._pump(source, sink, swallowed))
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, swallowed: bool) -> None:
        try:
            while data := await source.read(65536):
                if not (swallowed and self._swallow):
                    sink.write(data)
        except ConnectionError:
            pass
        sink.close()

    async def close(self) -> None:
        self.cut()
        await asyncio.gather(*self._pumps)


@pytest.fixture
async def wire(url: str) -> AsyncIterator[tuple[Wire, str]]:
    parts = urlsplit(url)
    wire = Wire(parts.hostname, parts.port)
    server = await asyncio.start_server(wire.connect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield wire, f"nats://{parts.username}:{parts.password}@127.0.0.1:{port}"
    server.close()
    await wire.close()
    await server.wait_closed()


async def test_a_tail_reads_again_what_a_broken_connection_lost(bus, wire, event):
    cable, through = wire
    async with await Bus.connect(through, name="far") as far, far.tail() as tail:
        await bus.publish(event())
        heard = [(await within(anext(tail)))[0]]
        cable.swallow()
        await bus.publish_many([event() for _ in range(50)])
        cable.cut()
        heard += [(await within(anext(tail)))[0] for _ in range(50)]
    assert heard == list(range(1, 52))


async def test_an_event_whose_acknowledgement_was_lost_is_stored_once(bus, wire, event):
    cable, through = wire
    envelope = event()
    async with await Bus.connect(through, name="far") as far, bus.tail() as tail:
        cable.swallow()
        publishing = asyncio.create_task(far.publish(envelope))
        assert (await within(anext(tail)))[1] == envelope
        cable.cut()
        assert await within(publishing) == 1
    assert len(await bus.history("s1")) == 1


async def test_events_whose_acknowledgements_were_lost_are_stored_once_and_in_order(bus, wire, event):
    cable, through = wire
    many = [event() for _ in range(2500)]
    async with await Bus.connect(through, name="far") as far, bus.tail() as tail:
        cable.swallow()
        publishing = asyncio.create_task(far.publish_many(many))
        assert (await within(anext(tail)))[1] == many[0]
        cable.cut()
        assert sorted(await within(publishing)) == list(range(1, 2501))
    published, stored = [envelope.id for envelope in many], [envelope.id for _, envelope in await bus.history("s1")]
    assert stored[:256] == published[:256]
    assert set(stored[:1000]) == set(published[:1000])
    assert stored[1000:] == published[1000:]


async def test_a_worker_is_served_over_a_new_connection(bus, wire, event):
    cable, through = wire
    async with (
        await Bus.connect(through, name="far") as far,
        far.consume("cpu", "compiler", [StopRequested], ack_wait_s=1) as consumer,
    ):
        waiting = asyncio.create_task(anext(consumer))
        await far.history("s1")
        cable.swallow()
        await bus.publish(event())
        cable.cut()
        assert (await within(waiting)).seq == 1


async def test_what_a_broken_connection_lost_is_not_acknowledged_with_what_follows(bus, wire, event):
    cable, through = wire
    async with await Bus.connect(through, name="far") as far:
        sequences: list[int] = []
        begun = asyncio.Event()

        async def record(until: int) -> None:
            while not sequences or sequences[-1] < until:
                consumer = BulkConsumer(far, "recorder-test", sequences[-1] if sequences else 0)
                await consumer.open()
                try:
                    while not sequences or sequences[-1] < until:
                        sequences.extend(seq for seq, _ in await consumer.batch(10, 0.01))
                        await consumer.ack()
                        begun.set()
                except ConsumerGone:
                    pass
                finally:
                    await consumer.aclose()

        await bus.publish(event())
        recording = asyncio.create_task(record(41))
        await within(begun.wait())
        cable.swallow()
        await bus.publish_many([event() for _ in range(20)])
        cable.cut()
        await bus.publish_many([event() for _ in range(20)])
        await within(recording)
    assert sequences == list(range(1, 42))
