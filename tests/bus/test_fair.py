"""Sessions of a pool take turns, whoever asked first; nothing is lost by it and nothing is done twice."""

import asyncio
import contextlib
import itertools
from collections import Counter
from types import SimpleNamespace

import pytest
from waiting import LIMIT_S, REDELIVERY_S, eventually, within

from given import opened
from kernelswarm.bus import Bus
from kernelswarm.bus.cancelled import heeded
from kernelswarm.bus.open_sessions import OpenSessionIndex
from kernelswarm.bus.pull import Pull
from kernelswarm.bus.round_robin import RoundRobin
from kernelswarm.bus.subjects import durable_name
from kernelswarm.schemas import SessionClosed, SessionOpened, StopRequested

STOP = [StopRequested]


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of a lone worker takes as long as every other, however busy the machine is: a clock that counts."""
    ticks = itertools.count()
    monkeypatch.setattr("kernelswarm.bus.fair.time", SimpleNamespace(monotonic=lambda: next(ticks) / 1000))


async def done(consumer, count: int) -> list[str]:
    """Sessions in the order in which one worker served them."""
    served = []
    while len(served) < count:
        delivery = await within(anext(consumer))
        served.append(delivery.envelope.session)
        await delivery.ack()
    return served


def backlog(event, session: str, count: int):
    return [event(opened(), session=session), *(event(session=session) for _ in range(count))]


def test_who_was_served_least_comes_next():
    sessions = RoundRobin(lambda: 0.5)
    for session, seconds in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        sessions.begin(session)
        sessions.end(session, seconds)
    assert sessions.order("abc") == ["b", "c", "a"]


def test_who_is_being_served_waits_for_the_others():
    sessions = RoundRobin(lambda: 0.5)
    sessions.begin("a")
    assert sessions.order(["a", "b"]) == ["b", "a"]


def test_idleness_saves_up_no_claim():
    sessions = RoundRobin(lambda: 0.5)
    for _ in range(10):
        sessions.begin("busy")
        sessions.end("busy", 1.0)
    served = []
    for _ in range(6):
        session = sessions.order(["busy", "newcomer"])[0]
        sessions.begin(session)
        sessions.end(session, 1.0)
        served.append(session)
    assert Counter(served) == {"busy": 3, "newcomer": 3}


@pytest.mark.usefixtures("alike")
async def test_a_later_session_does_not_wait_for_an_earlier_ones_backlog(bus, event):
    await bus.publish_many(backlog(event, "early", 40))
    await bus.publish_many(backlog(event, "late", 10))
    async with bus.consume_round_robin("cpu", "compiler", STOP) as worker:
        served = await done(worker, 50)
    assert Counter(served) == {"early": 40, "late": 10}
    assert served.index("late") <= 2
    assert Counter(served[:20])["late"] >= 8


@pytest.mark.usefixtures("alike")
async def test_a_session_that_was_opened_meanwhile_gets_its_turn(bus, event):
    await bus.publish_many(backlog(event, "early", 40))
    async with bus.consume_round_robin("cpu", "compiler", STOP) as worker:
        await done(worker, 10)
        await bus.publish_many(backlog(event, "late", 5))
        expected = ["early", "late"]
        assert await eventually(worker._open_sessions.sessions, expected) == expected
        served = await done(worker, 35)
    assert Counter(served) == {"early": 30, "late": 5}
    assert served[10:].count("late") == 0


async def test_workers_share_everything_out_and_do_nothing_twice(bus, url, event):
    names = [f"s{number}" for number in range(5)]
    bus.ack_wait_s = REDELIVERY_S
    for name in names:
        await bus.publish_many(backlog(event, name, 20))
    seen: Counter[int] = Counter()

    async def work(consumer) -> None:
        async for delivery in consumer:
            seen[delivery.seq] += 1
            await delivery.ack()
            if len(seen) == 100:
                await asyncio.gather(*(peer.aclose() for peer in consumers))

    async with await Bus.connect(url, name="second") as second:
        second.ack_wait_s = REDELIVERY_S
        consumers = [on.consume_round_robin("cpu", "compiler", STOP) for on in (bus, second) for _ in range(4)]
        await within(asyncio.gather(*map(work, consumers)))
    assert len(seen) == 100 and set(seen.values()) == {1}


async def test_work_that_was_handed_back_comes_again(bus, event):
    await bus.publish_many(backlog(event, "s1", 1))
    async with bus.consume_round_robin("cpu", "compiler", STOP) as worker:
        await (await within(anext(worker))).nak(0.01)
        again = await within(anext(worker))
        assert (again.seq, again.deliveries) == (2, 2)
        await again.ack()
        with pytest.raises(TimeoutError):
            await within(anext(worker), 0.1)


@pytest.mark.parametrize("how", ["closed", "silent"])
async def test_what_a_worker_left_behind_goes_to_another(url, event, how, monkeypatch):
    monkeypatch.setenv("KERNELSWARM_NATS_ACK_WAIT", "1")
    async with await Bus.connect(url, name="one") as leaving, await Bus.connect(url, name="two") as staying:
        await leaving.publish_many(backlog(event, "s1", 2))
        worker = leaving.consume_round_robin("cpu", "compiler", STOP)
        taken = await within(anext(worker))
        if how == "closed":
            await taken.nak()
            await worker.aclose()
        async with staying.consume_round_robin("cpu", "compiler", STOP) as consumer:
            seen = set()
            while len(seen) < 2:
                delivery = await within(anext(consumer))
                seen.add(delivery.seq)
                await delivery.ack()
    assert seen == {2, 3}


async def test_leftover_work_of_a_closed_session_is_done(bus, event):
    await bus.publish_many(backlog(event, "s1", 3))
    await bus.publish_many([event(SessionClosed(reason="user"), session="s1"), *backlog(event, "s2", 3)])
    async with bus.consume_round_robin("cpu", "compiler", STOP) as worker:
        assert Counter(await done(worker, 6)) == {"s1": 3, "s2": 3}


async def test_waiting_may_be_cancelled_without_losing_anything(bus, event):
    async with bus.consume_round_robin("cpu", "compiler", STOP) as worker:
        with pytest.raises(TimeoutError):
            await within(anext(worker), 0.05)
        await bus.publish_many(backlog(event, "s1", 1))
        assert (await within(anext(worker))).deliveries == 1


async def test_a_worker_lives_through_a_restart_of_the_server(bus, event, kill_server):
    await bus.publish_many(backlog(event, "s1", 3))
    async with bus.consume_round_robin("cpu", "compiler", STOP) as worker:
        await done(worker, 1)
        kill_server()
        await bus.publish(event(session="s1"))
        assert await done(worker, 3) == ["s1"] * 3


async def test_a_dispatch_token_that_got_lost_costs_time_and_not_the_work(bus, event, monkeypatch):
    monkeypatch.setattr("kernelswarm.bus.fair.LOOK_AROUND_SECONDS", 0.1)
    await bus.publish_many(backlog(event, "s1", 1))
    async with bus.consume("cpu", "compiler", STOP) as thief:
        await (await within(anext(thief))).ack()
    async with bus.consume_round_robin("cpu", "compiler", STOP) as worker:
        assert (await within(anext(worker))).seq == 2


async def test_a_lost_dispatch_token_is_missed_beside_open_sessions_that_have_nothing_to_do(bus, event, monkeypatch):
    monkeypatch.setattr("kernelswarm.bus.fair.LOOK_AROUND_SECONDS", 0.05)
    idle = [f"idle{number}" for number in range(4)]
    await bus.publish_many([*(event(opened(), session=name) for name in idle), *backlog(event, "s1", 1)])
    async with bus.consume_round_robin("cpu", "compiler", STOP) as worker:
        assert await done(worker, 1) == ["s1"]
    await bus.publish(event(session="s1"))
    # As when a message is delivered twice, and settled with another one's dispatch token.
    thief = Pull(bus._link, durable_name("cpu", "compiler"))
    await thief.start()
    await within((await within(thief.get(1))).ack())
    await thief.stop()
    async with bus.consume_round_robin("cpu", "compiler", STOP) as worker:
        assert await done(worker, 1) == ["s1"]


async def test_a_copy_of_its_opening_does_not_open_a_closed_session(bus, event):
    closing = event(SessionClosed(reason="user"), session="s1")
    await bus.publish_many([event(opened(), session="s1"), closing, event(opened(), session="s1")])
    await bus.publish(event(opened(), session="s2"))
    index = OpenSessionIndex(bus._link, "cpu")
    assert await index.sessions() == ["s2"]
    await index.aclose()


async def test_sessions_that_wait_for_somebody_are_open_ones_of_any_pool_the_newest_last(bus, event):
    await bus.publish_many([event(opened(), session=session) for session in ("s1", "s2", "s3", "s4")])
    await bus.publish_many([event(session="s1"), event(session="s3", pool="other"), event(session="s4")])
    await bus.publish(event(SessionClosed(reason="user"), session="s1"))
    assert await bus.open_sessions(StopRequested) == ["s3", "s4"]
    assert await bus.open_sessions(SessionOpened) == ["s2", "s3", "s4"]


async def test_a_cancellation_that_the_client_swallows_ends_the_task_all_the_same():
    begun = asyncio.Event()

    async def flushing() -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):  # as nats-py does
            await asyncio.Event().wait()

    async def worker() -> None:
        while True:
            await heeded(flushing())

    task = asyncio.create_task(worker())
    await begun.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=LIMIT_S)
    assert done and task.cancelled()
