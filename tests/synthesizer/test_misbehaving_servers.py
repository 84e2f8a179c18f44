"""Servers that send what no server should: every conversation ends, within its bounds, with events that can be kept."""

import asyncio
from collections.abc import Callable

import pytest
from model_server import Failed, Said

from kernelswarm.agents.synthesizer.model.cleaned import MOST_CALLS, MOST_CHARACTERS, MOST_TOKENS
from kernelswarm.agents.synthesizer.model.desk import DeskError
from kernelswarm.agents.synthesizer.model.spending import Ledger
from kernelswarm.agents.synthesizer.model.surroundings import Surroundings
from kernelswarm.agents.synthesizer.model.toolbox import NODE_LIMITS
from kernelswarm.schemas import ToolCalled, decode, encode

FILE = "import torch\n\ndef kernel(x):\n    return x * 2\n"
HISTORY = ("history", {"question": "this_session"})
SUBMIT = Said(tools=(("submit", {"source": FILE}),))
LIMIT_S = 60.0


class Desk:
    """Nobody checks here, and the log is empty."""

    async def check(self, source, *, compile_only):
        raise DeskError("nobody checks")

    async def ask(self, question, values):
        return "nothing yet"

    async def assembly(self, node):
        return "nothing"


@pytest.fixture
def converse(server, ask, make_request, replayed) -> Callable:
    """Play a script; what came of it, as it comes back from the wire, and conversed again from its records."""

    async def play(*script: Said | Failed, model: str = "claude-test", **settings: object):
        server.script = list(script)
        request = make_request(model=model)
        around = Surroundings(desk=Desk(), ledger=Ledger())
        async with asyncio.timeout(LIMIT_S):
            answer = await ask(**settings).backend.converse(request, around)
        for event in (*answer.records, answer.candidate or answer.failed):
            assert decode(encode(event), type(event)) == event
        await replayed(answer, request)
        return answer

    return play


@pytest.mark.parametrize(
    "odd",
    [
        Said("half of a pair: \ud800", tools=(HISTORY,)),
        Said(tools=(("history", {"question": "this_session", "operator": "\ud800"}),)),
        Said(tools=(("submit", {"source": 5}),)),
        Said(tools=(("history", None),)),
        Said(tools=(("", {}),)),
        Said(tools=(HISTORY, HISTORY)),
        Said("a zero: \0", tools=(HISTORY,)),
        Said(tools=(("history", '{"question":' + "[" * 100_000),)),
        Said("y" * (MOST_CHARACTERS + 1), tools=(HISTORY,)),
        Failed(200, body=b'event: x\ndata: {"a": "\xff"}\n\n', media_type="text/event-stream"),
        Failed(204, body=b""),
        Failed(600, "odd", "what is that"),
        Failed(429, "rate", "x", headers={"retry-after": "nan"}),
        Failed(429, "rate", "x", headers={"retry-after": "-7"}),
    ],
    ids=lambda odd: repr(odd)[:60],
)
async def test_an_odd_answer_ends_no_conversation(converse, odd):
    assert (await converse(odd, SUBMIT)).candidate is not None


async def test_counts_that_nobody_can_have_used_are_not_believed(converse):
    answer = await converse(Said("x", tools=(HISTORY,), usage={"input": -(10**6), "output": -5}), SUBMIT)
    assert answer.calls[0].input_tokens == answer.calls[0].output_tokens == 0, "a limit must not grow"
    answer = await converse(Said("x", tools=(HISTORY,), usage={"input": 10**30, "output": 7}))
    assert answer.calls[0].input_tokens == MOST_TOKENS and "tokens (a node has" in answer.failed.reason


async def test_calls_of_tools_in_one_answer_are_bounded(converse):
    answer = await converse(Said(tools=(HISTORY,) * 500), SUBMIT)
    called = [record for record in answer.records if isinstance(record, ToolCalled)]
    assert len(called) == MOST_CALLS + 1 and answer.candidate is not None


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
@pytest.mark.parametrize("call", [("submit", '{"source": "import'), ("nothing_like_it", {})], ids=["broken", "unknown"])
async def test_a_model_that_cannot_call_tools_is_asked_three_times(converse, server, call):
    answer = await converse(*[Said(tools=(call,))] * 20)
    assert "no call of a tool could be carried out in 3 answers" in answer.failed.reason and len(server.bodies) == 3
    assert not answer.failed.retryable


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_takes_nothing_elsewhere(converse, server, status):
    moved = Failed(status, "moved", "there", headers={"location": f"{server.url}/elsewhere"})
    answer = await converse(moved)
    assert "sends requests on to another address" in answer.failed.reason and len(server.bodies) == 1
    assert not answer.failed.retryable


@pytest.mark.parametrize("option", ["", "--base-url"])
async def test_a_fault_names_what_the_address_was_given_by(converse, option):
    answer = await converse(Failed(200, body=b"<html>"), attempts=1, url_option=option)
    assert f"is {option} right?" in answer.failed.reason or (not option and "_BASE_URL right?" in answer.failed.reason)


async def test_a_connection_without_a_reason_says_what_it_was(converse, server, ask, make_request):
    answer = await ask(url="http://127.0.0.1:9", attempts=1).backend.synthesize(make_request())
    assert "()" not in answer.failed.reason and "cannot reach http://127.0.0.1:9 (" in answer.failed.reason


async def test_an_answer_without_an_end_is_cut_off(converse, server):
    answer = await converse(Said("and so on", endless=True), longest_answer_s=0.3)
    assert "did not end within 0.3 s" in answer.failed.reason and len(server.bodies) == 1
    await server.left.wait()


async def test_money_of_a_node_is_bounded(converse):
    dear = Said("x", tools=(HISTORY,), usage={"input": 10, "output": 90_000})
    answer = await converse(*[dear] * 6, model="claude-opus-5-5")
    assert f"(a node has ${NODE_LIMITS.cost:.2f})" in answer.failed.reason and answer.failed.retryable
    assert sum(call.cost for call in answer.calls) < NODE_LIMITS.cost + answer.calls[0].cost
