"""Limits of money and tokens: kept whatever happens, and used up before an author ends for them."""

import asyncio
import contextlib

import pytest
from model_server import Said

from kernelswarm.agents.synthesizer.model.spending import Ledger, LimitReached, Limits
from kernelswarm.agents.synthesizer.model.surroundings import Surroundings
from kernelswarm.schemas import ModelCalled

MODEL = "claude-opus-5-5"
"""4 and 20 US dollars for a million tokens: an answer of 32,000 may cost 0.64."""


def called(tokens: int) -> ModelCalled:
    return ModelCalled(
        backend="b", model=MODEL, request="", completion="", stop_reason="end", input_tokens=0, output_tokens=tokens
    )


@pytest.mark.parametrize("limits", [Limits(cost=1.00), Limits(tokens=60_000)], ids=["cost", "tokens"])
async def test_requests_under_way_are_waited_for_and_end_no_author(server, ask, make_request, good, limits):
    server.answer = lambda body: Said(good)
    around, backend = Surroundings(limits=limits, ledger=Ledger()), ask().backend
    answers = await asyncio.gather(*(backend.converse(make_request(model=MODEL), around) for _ in range(5)))
    assert [answer.failed for answer in answers] == [None] * 5, "next to nothing was spent"
    lengths = [body.get("max_tokens") for body in server.requests]
    assert lengths == [32_000] * 5, "whoever waits has room for a whole answer"


async def test_what_is_spent_meanwhile_ends_those_that_wait():
    ledger, limits = Ledger(), Limits(tokens=10_000)

    async def asked() -> bool:
        with contextlib.suppress(LimitReached):
            async with ledger.reserved(limits, None, 1_000, 8_000):
                await asyncio.sleep(0)
                ledger.record(called(8_000))
                return True
        return False

    assert await asyncio.gather(asked(), asked(), asked()) == [True, False, False]


async def test_one_that_is_cancelled_lets_the_next_go():
    ledger, limits = Ledger(), Limits(tokens=10_000)

    async def asked(seconds: float) -> None:
        async with ledger.reserved(limits, None, 1_000, 8_000):
            await asyncio.sleep(seconds)

    first, second = asyncio.create_task(asked(60)), asyncio.create_task(asked(0))
    await asyncio.sleep(0)
    first.cancel()
    async with asyncio.timeout(10):
        await second


async def test_a_limit_names_what_is_spent_and_the_option():
    ledger = Ledger()
    with pytest.raises(LimitReached, match=r"limit of 2,000 tokens .* request of 1,000 .*0 are used.*--max-tokens"):
        async with ledger.reserved(Limits(tokens=2_000), None, 1_000, 8_000):
            pass
