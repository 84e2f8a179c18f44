"""Whatever happens between an input and its acknowledgement: one output for each, because ids follow from causes."""

import asyncio
import itertools
from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import given as for_all
from hypothesis import strategies as st
from waiting import LIMIT_S

import given
from kernelswarm.bus import Bus
from kernelswarm.bus.consumer import Delivery
from kernelswarm.schemas import CandidateProposed, Envelope, StopRequested, event_id
from kernelswarm.tests.chaos.copies import publish_copy

MISHAPS = ("none", "killed before the answer", "acknowledgement lost", "answered twice", "leaves and comes back")

sessions = itertools.count()


async def worked(bus: Bus, delivery: Delivery, mishap: str) -> bool:
    """One step of a worker to whom ``mishap`` happens; whether it is settled."""
    answer = given.envelope_of(
        given.candidate(), node=delivery.envelope.node, cause=delivery.envelope.id, session=delivery.envelope.session
    )
    if mishap != "killed before the answer":
        await bus.publish(answer)
    if mishap == "answered twice":
        await bus.publish(answer)
    if mishap in ("none", "answered twice"):
        await delivery.ack()
        return True
    await delivery.nak()  # what the server does of itself when it has heard nothing for long enough
    return False


async def serve(bus: Bus, session: str, inputs: Sequence[Envelope], mishaps: Sequence[str]) -> None:
    happens, settled = iter(mishaps), 0
    while settled < len(inputs):
        async with bus.consume("cpu", "synthesizer", [StopRequested], session=session) as consumer:
            while settled < len(inputs):
                mishap = next(happens, "none")
                settled += await worked(bus, await anext(consumer), mishap)
                if mishap == "leaves and comes back":
                    break


@settings(max_examples=settings().max_examples // 5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@for_all(count=st.integers(1, 4), mishaps=st.lists(st.sampled_from(MISHAPS), max_size=10))
async def test_every_input_has_one_output(bus: Bus, count: int, mishaps: list[str]) -> None:
    session = f"s{next(sessions)}"
    inputs = [given.envelope_of(StopRequested(reason="user"), index=index, session=session) for index in range(count)]
    await bus.publish_many(inputs)
    async with asyncio.timeout(LIMIT_S):
        await serve(bus, session, inputs, mishaps)
    answers = [
        envelope for _, envelope in await bus.history(session) if isinstance(envelope.event(), CandidateProposed)
    ]
    expected_ids = {event_id(session, envelope.id, "candidate.proposed.v1", 0) for envelope in inputs}
    assert sorted(envelope.id for envelope in answers) == sorted(expected_ids)


async def test_a_copy_is_stored_beside_the_first(bus: Bus) -> None:
    first = given.envelope_of(StopRequested(reason="user"))
    await bus.publish(first)
    await bus.publish(first)
    await publish_copy(bus, first)
    assert [envelope.id for _, envelope in await bus.history(first.session)] == [first.id, first.id]
