"""Limits of money and tokens: kept whatever happens, and used up before an author ends for them."""

import asyncio
import contextlib

import pytest
from model_server import Failed, Said

from kernelswarm.agents.synthesizer.model.authoring import Authoring
from kernelswarm.agents.synthesizer.model.prices import price_of
from kernelswarm.agents.synthesizer.model.spending import Ledger, LimitReached, Limits
from kernelswarm.agents.synthesizer.model.surroundings import Surroundings
from kernelswarm.agents.synthesizer.model.toolbox import NodeLimits
from kernelswarm.schemas import ModelCalled, Skill

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


@pytest.mark.parametrize("broken", [Said("y" * 3_000, cut=True), Said("y" * 3_000, error="overloaded_error")], ids=repr)
async def test_an_answer_that_breaks_off_is_paid_for_as_far_as_it_came(server, ask, make_request, good, broken):
    server.script, ledger = [broken, Said(good)], Ledger()
    answer = await ask().backend.converse(make_request(model=MODEL), Surroundings(ledger=ledger))
    call = answer.calls[0]
    assert call.error and call.estimated and call.input_tokens > 0 and call.output_tokens >= 500
    assert call.cost == pytest.approx(call.input_tokens * 4e-6 + call.output_tokens * 20e-6) and call.price_date
    assert ledger.spent.tokens == sum(call.input_tokens + call.output_tokens for call in answer.calls)


@pytest.mark.parametrize("lost", [Failed(hang=True), Failed(drop=True)], ids=["hangs", "drops"])
async def test_a_request_without_an_answer_counts_by_an_estimate(server, ask, make_request, lost, replayed):
    server.script, request = [lost], make_request(model=MODEL)
    answer = await ask(attempts=1, timeout_s=0.2).backend.converse(request, Surroundings())
    call = answer.calls[0]
    assert call.estimated and call.input_tokens == pytest.approx(len(call.request) / 3, rel=0.01)
    assert call.output_tokens == 0 and call.cost > 0
    await replayed(answer, request)


@pytest.mark.parametrize("begun", [False, True])
async def test_a_request_that_is_cut_off_with_its_node_counts_by_an_estimate(server, ask, make_request, begun):
    server.script, ledger = [Said("y" * 3_000, endless=True) if begun else Failed(hang=True)], Ledger()
    backend, request = ask().backend, make_request(model=MODEL)
    settings = backend.settings_for("")
    await backend.import_library()
    wire, price = backend.open_wire(backend._sdk(settings), MODEL, settings), price_of(MODEL, settings.url)
    limits = NodeLimits(seconds=1.0 - settings.longest_answer_s)
    around = Surroundings(ledger=ledger)
    answer = await Authoring(wire, MODEL, settings, price, request, around, asyncio.sleep, limits).answer()
    (call,) = answer.calls
    assert answer.failed.retryable and call.error.startswith("cancelled: ") and call.estimated
    assert call.input_tokens > 0 and (call.output_tokens >= 500) is begun
    assert call.cost == pytest.approx(call.input_tokens * 4e-6 + call.output_tokens * 20e-6)
    assert ledger.spent.cost == call.cost and ledger._reserved.cost == pytest.approx(0)


async def test_a_request_that_was_refused_or_not_sent_costs_nothing(server, ask, make_request):
    server.script = [Failed(529, "overloaded_error", "later")]
    answers = [await ask(attempts=1).backend.synthesize(make_request(model=MODEL))]
    answers.append(await ask(attempts=1, url="http://127.0.0.1:9").backend.synthesize(make_request(model=MODEL)))
    calls = [answer.calls[0] for answer in answers]
    assert [(call.input_tokens, call.output_tokens, call.cost, call.estimated) for call in calls] == [
        (0, 0, None, False)
    ] * 2


@pytest.mark.parametrize("context", [8_192, 16_384])
async def test_a_small_context_bounds_prompt_and_answer(server, ask, make_request, good, replayed, tmp_path, context):
    entry = f'"local" = {{ input = 0, output = 0, context = {context} }}'
    (tmp_path / "prices.toml").write_text(f"[models]\n{entry}\n")
    like = {"pool": "cpu", "platform": "cpu", "operators": (), "dtype": "float32", "sizes": ()}
    lessons = ((f"s{n}", f"{n}" + "long " * 8_000) for n in range(3))
    skills = tuple(Skill(id=name, title=name, text=text, **like) for name, text in lessons)
    server.script, request = [Said(good)], make_request(model="local", skills=skills)
    answer = await ask().backend.converse(request, Surroundings(desk=object(), home=tmp_path))
    (body,) = server.requests
    call = answer.calls[0]
    assert len(call.request) / 3 + body["max_tokens"] <= context + 10 and body["max_tokens"] >= 2_000
    assert "Left out for lack of room" in call.request and "tools" not in body and call.context == context
    await replayed(answer, request)


async def test_broken_answers_cannot_pass_a_limit(server, ask, make_request):
    server.answer = lambda body: Said("y" * 60_000, cut=True)
    ledger, limits = Ledger(), Limits(tokens=50_000)
    asked = ask(attempts=9)
    answer = await asked.backend.converse(make_request(model=MODEL), Surroundings(limits=limits, ledger=ledger))
    assert answer.failed.exhausted and len(server.bodies) < 9 and ledger.spent.tokens <= 50_000
