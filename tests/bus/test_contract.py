"""What everybody may rely on, held against the real server."""

import asyncio

import msgspec
import nats
import pytest
from nats.js import api
from nats.js.errors import APIError
from waiting import REDELIVERY_S, within

from kernelswarm.bus import ANY, MAX_PAYLOAD, Bus
from kernelswarm.bus.link import ANSWER_SECONDS, _passing
from kernelswarm.bus.stream import ensure_consumer
from kernelswarm.schemas import BusError, InputError, SessionClosed, StopRequested, decode_envelope

STOP = [StopRequested]


async def raw_client(url):
    return await nats.connect(url)


async def test_events_come_back_in_the_order_they_were_published(bus, event):
    events = [event() for _ in range(300)]
    sequences = await bus.publish_many(events)
    assert sequences == list(range(1, 301))
    assert await bus.history("s1") == list(zip(sequences, events, strict=True))


async def test_the_same_event_twice_is_stored_once(bus, event):
    envelope, other_envelope = event(), event()
    first = await bus.publish(envelope)
    assert await bus.publish(envelope) == first
    assert await bus.publish_many([envelope, other_envelope, envelope]) == [first, first + 1, first]
    assert len(await bus.history("s1")) == 2


async def test_of_many_events_those_that_can_be_are_stored(bus, event):
    large = event(StopRequested(reason="x" * 2 * MAX_PAYLOAD))
    with pytest.raises(InputError, match="not a usable name"):
        await bus.publish_many([event(), event(session="*"), large, event()])
    with pytest.raises(BusError, match="put what is large into an artifact"):
        await bus.publish_many([large, event()])
    unspeakable = msgspec.structs.replace(event(), worker="\ud800")
    with pytest.raises(UnicodeEncodeError):
        await bus.publish_many([unspeakable, event()])
    assert len(await bus.history("s1")) == 4


async def test_what_another_stream_acknowledges_is_not_stored(bus, url, event):
    client = await raw_client(url)
    await client.jetstream().delete_stream("EVENTS")
    await client.jetstream().add_stream(name="OTHER", subjects=["ks.v1.>"])
    await client.close()
    for publishing in (bus.publish(event()), bus.publish_many([event(), event()])):
        with pytest.raises(BusError, match="expected stream does not match"):
            await within(publishing)


async def test_publishing_ends_when_the_bus_is_closed(url, event):
    bus, closing = await Bus.connect(url, name="closing"), asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, closing.set)

    async def close() -> None:
        await closing.wait()
        await bus.close()

    async with asyncio.timeout(ANSWER_SECONDS / 2):
        with pytest.raises(BusError, match="is closed"):
            await asyncio.gather(bus.publish_many([event() for _ in range(5000)]), close())


async def test_many_events_have_the_patience_of_one(url, event):
    async with await Bus.connect(url, name="patient", patience=1) as bus:
        client = await raw_client(url)
        await client.jetstream().delete_stream("EVENTS")
        await client.close()
        async with asyncio.timeout(2 * ANSWER_SECONDS):
            with pytest.raises(BusError, match="JetStream does not answer"):
                await bus.publish_many([event() for _ in range(3000)])


def test_a_second_copy_is_sent_again_while_the_first_waits_for_a_majority():
    assert _passing(APIError(code=409, err_code=10158, description="duplicate message id is in process"))
    assert not _passing(APIError(code=400, err_code=10060, description="expected stream does not match"))


async def test_publishing_many_may_be_cancelled(bus, event):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await bus.publish_many([event() for _ in range(5000)])
    # What was on its way when it was cancelled may still be stored, before or after the next one.
    last = event()
    (seq,) = await bus.publish_many([last])
    assert dict(await bus.history("s1"))[seq] == last


async def test_history_keeps_to_its_session_and_its_bounds(bus, event):
    await bus.publish_many([event(session=name) for name in ("s1", "s10", "s1", "s2", "s1")])
    assert [seq for seq, _ in await bus.history("s1")] == [1, 3, 5]
    assert [seq for seq, _ in await bus.history("s1", after=1)] == [3, 5]
    assert [seq for seq, _ in await bus.history("s1", until=3)] == [1, 3]
    assert [seq for seq, _ in await bus.history("s1", until=4)] == [1, 3]
    assert [seq for seq, _ in await bus.history("s1", after=1, until=2)] == []
    assert [seq for seq, _ in await bus.history(None, after=3)] == [4, 5]
    assert await bus.history("nobody") == []


async def test_a_tail_gives_the_past_and_then_what_is_said_next(bus, event):
    before, after = [event() for _ in range(3)], [event() for _ in range(3)]
    await bus.publish_many(before)
    async with bus.tail(session="s1", after=1) as tail:
        heard = [await within(anext(tail)) for _ in range(2)]
        waiting = asyncio.create_task(anext(tail))
        await bus.publish_many([event(session="other"), *after])
        heard += [await within(waiting), await within(anext(tail)), await within(anext(tail))]
    assert [envelope for _, envelope in heard] == before[1:] + after
    assert [seq for seq, _ in heard] == [2, 3, 5, 6, 7]


async def test_a_role_hears_its_kinds_of_its_pool_only(bus, event):
    mine = event()
    await bus.publish_many([event(pool="gpu"), event(SessionClosed(reason="budget")), mine])
    async with bus.consume("cpu", "compiler", STOP) as consumer:
        delivery = await within(anext(consumer))
    assert (delivery.envelope, delivery.seq, delivery.deliveries) == (mine, 3, 1)
    assert decode_envelope(delivery.data) == mine


async def test_a_recorder_hears_every_pool_and_tag(bus, event):
    await bus.publish_many([event(pool="gpu"), event(SessionClosed(reason="budget"))])
    async with bus.consume(ANY, "recorder", [], max_in_flight=100) as consumer:
        assert [(await within(anext(consumer))).seq for _ in range(2)] == [1, 2]


async def test_a_consumer_of_one_session_hears_no_other(bus, event):
    mine = event(session="mine")
    await bus.publish_many([event(session="theirs"), mine])
    async with bus.consume("cpu", "compiler", STOP, session="mine") as consumer:
        assert (await within(anext(consumer))).envelope == mine


async def test_acknowledged_work_is_done_for_good(bus, event):
    await bus.publish_many([event(), event()])
    async with bus.consume("cpu", "compiler", STOP) as consumer:
        await (await within(anext(consumer))).ack()
    async with bus.consume("cpu", "compiler", STOP) as consumer:
        assert (await within(anext(consumer))).seq == 2


async def test_refused_work_comes_again_and_says_so(bus, event):
    await bus.publish(event())
    async with bus.consume("cpu", "compiler", STOP, ack_wait_s=REDELIVERY_S) as consumer:
        await (await within(anext(consumer))).nak()
        again = await within(anext(consumer))
        assert (again.seq, again.deliveries) == (1, 2)
        await again.nak(0.01)
        assert (await within(anext(consumer))).deliveries == 3


async def test_settling_twice_does_nothing(bus, event):
    await bus.publish_many([event(), event()])
    async with bus.consume("cpu", "compiler", STOP) as consumer:
        delivery = await within(anext(consumer))
        await delivery.ack()
        await delivery.nak()
        await delivery.in_progress()
        await delivery.ack()
        assert (await within(anext(consumer))).seq == 2


async def test_workers_of_a_role_share_the_work_out(bus, url, event):
    await bus.publish_many([event() for _ in range(40)])
    seen: list[int] = []

    async def work(consumer) -> None:
        async for delivery in consumer:
            seen.append(delivery.seq)
            await delivery.ack()
            if len(seen) == 40:
                await asyncio.gather(*(peer.aclose() for peer in consumers))

    async with await Bus.connect(url, name="second") as second:
        ways = {"max_in_flight": 4, "ack_wait_s": REDELIVERY_S}
        consumers = [on.consume("cpu", "compiler", STOP, **ways) for on in (bus, second)]
        await within(asyncio.gather(*map(work, consumers)))
    assert sorted(seen) == list(range(1, 41))


async def test_a_consumer_that_is_closed_while_it_opens_ends(bus, monkeypatch):
    opening, closed = asyncio.Event(), asyncio.Event()

    async def ensure_later(*arguments) -> None:
        opening.set()
        await closed.wait()
        await ensure_consumer(*arguments)

    monkeypatch.setattr("kernelswarm.bus.consumer.ensure_consumer", ensure_later)
    consumer = bus.consume("cpu", "compiler", STOP)
    reading = asyncio.create_task(anext(consumer, None))
    await within(opening.wait())
    await consumer.aclose()
    closed.set()
    assert await within(reading) is None


async def test_no_more_is_handed_out_than_may_be_in_flight(bus, event):
    await bus.publish_many([event() for _ in range(3)])
    async with bus.consume("cpu", "compiler", STOP, max_in_flight=2) as consumer:
        first, _ = await within(anext(consumer)), await within(anext(consumer))
        third = asyncio.create_task(anext(consumer))
        await bus.history("s1")
        assert not third.done()
        await first.ack()
        assert (await within(third)).seq == 3


async def test_waiting_may_be_cancelled_without_losing_anything(bus, event):
    async with bus.consume("cpu", "compiler", STOP) as consumer:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(consumer), 0.05)
        await bus.publish(event())
        assert (await within(anext(consumer))).deliveries == 1


async def test_what_a_leaving_worker_did_not_take_goes_to_another_at_once(bus, event):
    async with bus.consume("cpu", "compiler", STOP, max_in_flight=8, ack_wait_s=REDELIVERY_S) as leaving:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(leaving), 0.05)
        await bus.publish_many([event() for _ in range(4)])
        await (await within(anext(leaving))).ack()
    async with bus.consume("cpu", "compiler", STOP, max_in_flight=8, ack_wait_s=REDELIVERY_S) as staying:
        assert sorted([(await within(anext(staying))).seq for _ in range(3)]) == [2, 3, 4]


async def test_closing_ends_an_iteration(bus):
    async with bus.consume("cpu", "compiler", STOP) as consumer:
        waiting = asyncio.create_task(anext(consumer, None))
        await bus.history("s1")
        await consumer.aclose()
        assert await within(waiting) is None
        assert await consumer.batch(10, 0.01) == []


async def test_a_batch_takes_what_is_there(bus, event):
    await bus.publish_many([event() for _ in range(30)])
    async with bus.consume(ANY, "recorder", [], max_in_flight=100) as consumer:
        deliveries = await within(consumer.batch(20, 5))
        assert len(deliveries) <= 20
        while len(deliveries) < 30:
            deliveries += await within(consumer.batch(30 - len(deliveries), 5))
    assert [delivery.seq for delivery in deliveries] == list(range(1, 31))


async def test_a_role_that_learns_a_new_kind_hears_it(bus, event):
    await bus.consume("cpu", "compiler", STOP).start()
    closed = event(SessionClosed(reason="budget"))
    await bus.publish(closed)
    async with bus.consume("cpu", "compiler", [*STOP, SessionClosed]) as consumer:
        assert (await within(anext(consumer))).envelope == closed


async def test_a_consumer_that_cannot_be_made_right_is_named_with_the_difference(bus, url):
    client = await raw_client(url)
    wrong = api.ConsumerConfig(durable_name="cpu_compiler", ack_policy=api.AckPolicy.NONE)
    await client.jetstream().add_consumer("EVENTS", wrong)
    await client.close()
    with pytest.raises(BusError, match=r"cpu_compiler.*ack_policy"):
        await bus.consume("cpu", "compiler", STOP).start()


async def test_a_consumer_that_was_deleted_is_made_again(bus, url, event):
    async with bus.consume("cpu", "compiler", STOP) as consumer:
        waiting = asyncio.create_task(anext(consumer))
        await bus.history("s1")
        client = await raw_client(url)
        await client.jetstream().delete_consumer("EVENTS", "cpu_compiler")
        await client.close()
        await bus.publish(event())
        assert (await within(waiting)).seq == 1


async def test_a_stream_of_an_older_version_is_brought_up_to_date(url):
    client = await raw_client(url)
    await client.jetstream().add_stream(name="EVENTS", subjects=["ks.v1.>"], duplicate_window=60, max_age=1000)
    async with await Bus.connect(url, name="test"):
        config = (await client.jetstream().stream_info("EVENTS")).config
    await client.close()
    assert (config.duplicate_window, config.max_age) == (600, 1000)


async def test_a_stream_has_a_consumer_for_every_session_of_a_day(url):
    """Servers from 2.15 on stop at a thousand where the stream names no number: 140 sessions."""
    raw = await raw_client(url)
    js = raw.jetstream()
    await js.add_stream(api.StreamConfig(name="EVENTS", subjects=["ks.v1.>"], duplicate_window=600))
    async with await Bus.connect(url, name="test"):
        for number in range(1010):
            # Kept in memory: a server that ends would write a thousand files first.
            config = api.ConsumerConfig(durable_name=f"d{number}", ack_policy="explicit", mem_storage=True)
            await js.add_consumer("EVENTS", config)
    await raw.close()


async def test_a_stream_that_is_not_ours_is_refused(url):
    client = await raw_client(url)
    await client.jetstream().add_stream(name="EVENTS", subjects=["ks.v1.>"], storage=api.StorageType.MEMORY)
    await client.close()
    with pytest.raises(BusError, match="storage"):
        await Bus.connect(url, name="test")


async def test_something_that_is_no_event_stops_nobody(bus, url, event, caplog):
    client = await raw_client(url)
    await client.jetstream().publish("ks.v1.s1.cpu.session-stop_requested-v1", b"{not an event")
    await client.close()
    good = event()
    await bus.publish(good)
    async with bus.consume("cpu", "compiler", STOP) as consumer:
        assert (await within(anext(consumer))).envelope == good
    assert await bus.history("s1") == [(2, good)]
    assert "not an event" in caplog.text


async def test_an_event_that_is_too_large_is_refused_with_the_way_out(bus, event):
    with pytest.raises(BusError, match=r"session\.stop_requested\.v1 of session s1 is 9,000,\d+ bytes.*artifact"):
        await bus.publish(event(StopRequested(reason="x" * 9_000_000)))
    assert await bus.history("s1") == []


async def test_a_large_event_travels(bus, event):
    large = event(StopRequested(reason="x" * 8_000_000))
    await bus.publish(large)
    assert await bus.history("s1") == [(1, large)]


@pytest.mark.parametrize("name", ["*", ">", "a.b", "", "a b"])
async def test_hostile_names_reach_no_server(bus, event, name):
    for attempt in (event(session=name), event(pool=name)):
        with pytest.raises(InputError, match="not a usable name"):
            await bus.publish(attempt)
    with pytest.raises(InputError):
        await bus.history(name)
    with pytest.raises(InputError):
        bus.tail(session=name)
    with pytest.raises(InputError):
        bus.consume("cpu", "compiler", STOP, session=name)
    assert await bus.history(None) == []


async def test_a_closed_bus_says_so(url, event):
    bus = await Bus.connect(url, name="test")
    await bus.close()
    await bus.close()
    with pytest.raises(BusError, match="closed"):
        await bus.publish(event())
    with pytest.raises(BusError, match="closed"):
        await bus.history("s1")
