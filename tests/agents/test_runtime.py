"""The runtime on a real server: at least once delivered, exactly once said."""

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs
from waiting import LIMIT_S, REDELIVERY_S, within

import given
from kernelswarm.agents.runtime import SESSIONS_KEPT, Answer, Folds, Histories, LatestUsed, Work, Worker
from kernelswarm.bus import Bus
from kernelswarm.bus.alive import running_beside
from kernelswarm.schemas import (
    CandidateProposed,
    Envelope,
    Event,
    HarnessError,
    Intent,
    MemoryOperator,
    NodePlanned,
    SessionOpened,
    StoreError,
    SynthesisFailed,
    event_id,
)
from kernelswarm.tests.chaos.copies import publish_copy


class Planning:
    """Answers an opened session with two plans."""

    role = "planner"
    consumes = (SessionOpened,)

    async def handle(self, work: Work) -> Sequence[Answer]:
        plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
        return [Answer(plan, "n001"), Answer(plan, "n002")]

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        raise AssertionError("not reached")

    async def close(self) -> None:
        pass


class Failing:
    """Never manages."""

    role = "synthesizer"
    consumes = (NodePlanned,)

    def __init__(self, error: Exception) -> None:
        self.tries = 0
        self._error = error

    async def handle(self, work: Work) -> Sequence[Answer]:
        self.tries += 1
        raise self._error

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        return [Answer(SynthesisFailed(backend="test", reason=reason))]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def running(*workers: Worker):
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await within(asyncio.wait(tasks))


async def heard(bus: Bus, kind: type[Event], count: int, session: str = "s-test1") -> list[Envelope]:
    """The first ``count`` events of ``kind``."""
    envelopes: list[Envelope] = []
    async with asyncio.timeout(LIMIT_S):
        async for _, envelope in bus.tail(session=session):
            if isinstance(envelope.event(), kind):
                envelopes.append(envelope)
            if len(envelopes) == count:
                return envelopes
    raise AssertionError


def opening() -> Envelope:
    return given.envelope_of(given.opened())


async def test_answers_carry_cause_node_and_deterministic_ids(bus: Bus) -> None:
    opened = opening()
    async with running(Worker(Planning(), bus, "cpu", Histories(bus))):
        await bus.publish(opened)
        plans = await heard(bus, NodePlanned, 2)
    assert [plan.node for plan in plans] == ["n001", "n002"]
    assert {plan.cause for plan in plans} == {opened.id}
    assert [plan.id for plan in plans] == [event_id("s-test1", opened.id, "node.planned.v1", i) for i in (0, 1)]


async def test_an_input_handled_twice_is_answered_once(bus: Bus) -> None:
    opened = opening()
    await bus.publish(opened)
    worker = Worker(Planning(), bus, "cpu", Histories(bus))
    answers = await Planning().handle(Work(opened, given.opened(), None, 1))  # type: ignore[arg-type]
    first = await bus.publish_many(worker.sealed(opened, answers))
    assert await bus.publish_many(worker.sealed(opened, answers)) == first
    assert len(await bus.history("s-test1")) == 3


async def test_a_copy_that_the_stream_did_not_know_is_answered_once(bus: Bus) -> None:
    opened = opening()
    await bus.publish(opened)
    async with running(Worker(Planning(), bus, "cpu", Histories(bus))):
        await heard(bus, NodePlanned, 2)
        await publish_copy(bus, opened)
        later = given.envelope_of(given.opened(), session="s-test2")
        await bus.publish(later)
        await heard(bus, NodePlanned, 2, session="s-test2")
    graph = await Folds(Histories(bus)).at("s-test1", 4)
    assert len(await bus.history("s-test1")) == 4 and len(graph.decisive) == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [(ValueError("a defect"), ["step raised", "step failed"]), (HarnessError("no room\nTraceback"), ["step failed"])],
)
async def test_a_step_that_always_raises_ends_in_an_event(bus: Bus, error: Exception, message: list[str]) -> None:
    agent = Failing(error)
    await bus.publish(opening())
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    await bus.publish(given.envelope_of(plan, node="n001", cause="x"))
    with capture_logs() as logs:
        async with running(Worker(agent, bus, "cpu", Histories(bus), give_up_after=2)):
            (failed,) = await heard(bus, SynthesisFailed, 1)
    event = failed.event()
    assert isinstance(event, SynthesisFailed)
    assert event.reason == f"{type(error).__name__}: {error}"
    warnings = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [entry["event"] for entry in warnings] == message
    assert "\n" not in warnings[-1]["error"]
    assert (failed.node, agent.tries) == ("n001", 2)


@pytest.mark.parametrize("breaks", [False, True])
async def test_a_worker_that_leaves_hands_its_step_to_another_at_once(breaks: bool, bus: Bus) -> None:
    started = asyncio.Event()
    bus.ack_wait_s = REDELIVERY_S

    class Endless(Planning):
        async def handle(self, work: Work) -> Sequence[Answer]:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                if breaks:
                    raise ValueError("what was cut off breaks on its way out")
            raise AssertionError

    await bus.publish(opening())
    async with running(Worker(Endless(), bus, "cpu", Histories(bus))):
        await within(started.wait())
    async with running(Worker(Planning(), bus, "cpu", Histories(bus), number=2)):
        plans = await heard(bus, NodePlanned, 2)
    assert {plan.worker.rpartition(".")[2] for plan in plans} == {"2"}


async def test_a_graph_is_as_of_its_event_also_when_asked_for_the_past(bus: Bus) -> None:
    await bus.publish(opening())
    first = await bus.publish(given.envelope_of(given.candidate(), node="n001", cause="a"))
    later = await bus.publish(given.envelope_of(given.diagnosed(), node="n001", cause="b"))
    folds = Folds(Histories(bus))
    assert (await folds.at("s-test1", later)).nodes["n001"].diagnosis is not None
    past = await folds.at("s-test1", first)
    assert isinstance(past.nodes["n001"].candidate, CandidateProposed)
    assert past.nodes["n001"].diagnosis is None


async def test_a_worker_that_breaks_takes_its_body_with_it(bus: Bus) -> None:
    async def breaks() -> None:
        raise StoreError("the disk is full")

    with pytest.raises(StoreError, match="disk is full"):
        async with running_beside(breaks(), "breaks"):
            await asyncio.Event().wait()


async def test_a_body_that_is_cancelled_from_outside_stays_cancelled(bus: Bus) -> None:
    async def body() -> None:
        async with running_beside(asyncio.Event().wait(), "forever"):  # type: ignore[arg-type]
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await asyncio.wait([task], timeout=0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_only_the_latest_sessions_are_kept() -> None:
    cache: LatestUsed[list[int]] = LatestUsed(list)
    cache["first"].append(1)
    for number in range(SESSIONS_KEPT):
        cache[f"s{number}"].append(number)
    assert cache["first"] == [] and cache[f"s{SESSIONS_KEPT - 1}"] == [SESSIONS_KEPT - 1]
