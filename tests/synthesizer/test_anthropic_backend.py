"""The real SDK and the real AutoGen against a server on loopback: what is asked, what is answered, what is recorded."""

import asyncio
import json
import re
import socket
import typing

import anthropic.types
import msgspec
import pytest
from autogen_core.models import ChatCompletionClient
from waiting import within

from kernelswarm.agents.synthesizer.anthropic.client import MessagesClient
from kernelswarm.agents.synthesizer.anthropic.settings import DEFAULT_MODEL
from kernelswarm.agents.synthesizer.backend import Attempt
from kernelswarm.hardware.languages.cpp import LOADER
from kernelswarm.schemas import Intent, MemoryOperator, NodePlanned, Skill, encode, sha256

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SKILL = Skill(
    id="double-1", title="t", pool="cpu", platform="cpu", operators=(), dtype="float32", sizes=(), text="Use pages."
)


async def test_a_good_answer_becomes_a_candidate_and_a_call(server, ask, make_request, say, good):
    server.script = [say(good, cache_read_input_tokens=5, cache_creation_input_tokens=3)]
    plan = NodePlanned(parent="n0", intent=Intent.improve, memory=MemoryOperator.inherit)
    answer = await ask().backend.synthesize(make_request(plan=plan, skills=(SKILL,)))
    candidate = answer.candidate
    assert LOADER in candidate.source and "def kernel(x):" in candidate.source
    assert candidate.sha256 == sha256(candidate.source)
    assert (candidate.backend, candidate.language) == ("anthropic", "cpp")
    assert candidate.rationale == "One pass, no temporaries."
    assert (candidate.parents, candidate.skills) == (("n0",), ("double-1",))
    (call,) = answer.calls
    assert (call.input_tokens, call.output_tokens, call.cache_read_tokens, call.cache_write_tokens) == (11, 7, 5, 3)
    assert (call.model, call.stop_reason, call.attempt, call.error) == ("claude-test", "end_turn", 1, "")
    assert call.completion == good and call.latency_ms > 0
    encode(answer.candidate), encode(call)


async def test_the_recorded_request_is_the_one_that_was_sent(server, ask, make_request, say, good, key):
    server.script = [say(good)]
    answer = await ask().backend.synthesize(make_request())
    assert json.loads(answer.calls[0].request) == server.requests[0]
    assert server.heads[0]["authorization"] == f"Bearer {key}"
    assert server.heads[0][":line"] == "POST /v1/messages HTTP/1.1"


async def test_what_stays_the_same_is_marked_for_caching(server, ask, make_request, say, good):
    server.script = [say(good)]
    await ask().backend.synthesize(make_request())
    (body,) = server.requests
    (system,), (turn,) = body["system"], body["messages"]
    assert system["cache_control"] == {"type": "ephemeral"}
    assert [block.get("cache_control") for block in turn["content"]] == [{"type": "ephemeral"}, None]
    assert "temperature" not in body and "tools" not in body


async def test_temperature_is_sent_only_if_set(server, ask, make_request, say, good):
    server.script = [say(good)]
    await ask(temperature=0.5).backend.synthesize(make_request())
    assert server.requests[0]["temperature"] == 0.5


async def test_the_same_request_says_the_same_every_time(server, ask, make_request, say, good):
    server.script = [say(good), say(good)]
    answers = [await ask().backend.synthesize(make_request()) for _ in range(2)]
    assert server.bodies[0] == server.bodies[1]
    assert not UUID.search(server.bodies[0].decode())
    assert answers[0].candidate == answers[1].candidate
    calls = [msgspec.structs.replace(answer.calls[0], latency_ms=0.0) for answer in answers]
    assert calls[0] == calls[1]


@pytest.mark.parametrize(
    ("status", "kind", "way_out"),
    [
        (400, "invalid_request_error", "refused"),
        (401, "authentication_error", "check ANTHROPIC_API_KEY"),
        (402, "billing_error", "billing"),
        (403, "permission_error", "another --model"),
        (404, "not_found_error", "check --model"),
        (413, "request_too_large", "smaller"),
    ],
)
async def test_what_no_second_try_can_mend_is_asked_once(server, ask, make_request, fail, status, kind, way_out):
    server.script = [fail(status, kind, "said so")]
    asked = ask()
    answer = await asked.backend.synthesize(make_request())
    assert way_out in answer.failed.reason and "said so" in answer.failed.reason
    assert not answer.failed.retryable and asked.pauses == []
    (call,) = answer.calls
    assert (call.stop_reason, call.completion, call.input_tokens) == ("error", "", 0)
    assert str(status) in call.error


async def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(server, ask, make_request, say, fail, good):
    server.script = [fail(429, "rate_limit_error", "slow", retry_after="7"), say(good)]
    asked = ask()
    answer = await asked.backend.synthesize(make_request())
    assert answer.candidate is not None
    assert asked.pauses == [7.0]
    assert [call.attempt for call in answer.calls] == [1, 2]
    assert answer.calls[0].error.startswith("rate_limit") and answer.calls[1].error == ""


async def test_a_very_long_rate_limit_fails_at_once_and_may_be_tried_later(server, ask, make_request, fail):
    server.script = [fail(429, "rate_limit_error", "slow", retry_after="3600")]
    asked = ask()
    answer = await asked.backend.synthesize(make_request())
    assert answer.failed.retryable and asked.pauses == [] and len(answer.calls) == 1


@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_server_in_trouble_is_asked_three_times_with_growing_pauses(server, ask, make_request, fail, status):
    server.script = [fail(status, "overloaded_error", "busy")] * 3
    asked = ask()
    answer = await asked.backend.synthesize(make_request())
    assert answer.failed.retryable
    assert [call.attempt for call in answer.calls] == [1, 2, 3] and len(server.bodies) == 3
    assert asked.pauses == [0.75, 1.5]


async def test_the_server_may_forbid_another_try(server, ask, make_request, fail):
    server.script = [fail(500, "api_error", "no", x_should_retry="false")]
    answer = await ask().backend.synthesize(make_request())
    assert len(answer.calls) == 1 and not answer.failed.retryable


async def test_nobody_listens(ask, make_request):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        answer = await ask(url=url).backend.synthesize(make_request())
    assert url in answer.failed.reason and "ANTHROPIC_BASE_URL" in answer.failed.reason
    assert answer.failed.retryable and len(answer.calls) == 3


async def test_a_dropped_connection_is_tried_again(server, ask, make_request, say, reply, good):
    server.script = [reply(drop=True), say(good)]
    answer = await ask().backend.synthesize(make_request())
    assert answer.candidate is not None and answer.calls[0].error.startswith("connection")


async def test_a_server_that_never_answers_times_out(server, ask, make_request, reply):
    server.script = [reply(hang=True)]
    answer = await ask(timeout_s=0.2, attempts=1).backend.synthesize(make_request())
    assert "within 0.2 s" in answer.failed.reason and answer.failed.retryable
    assert answer.calls[0].error.startswith("timeout")


async def test_cancelling_lets_the_connection_go(server, ask, make_request, reply):
    server.script = [reply(hang=True)]
    task = asyncio.create_task(ask().backend.synthesize(make_request()))
    await server.requested.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await within(server.left.wait())


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b'{"id": "msg_01", "content": [', "application/json"),
        (b"<html>Sign in</html>", "text/html"),
        (b'{"hello": "world"}', "application/json"),
        (b"[1, 2]", "application/json"),
        (b"null", "application/json"),
        (b'{"content": [{"type": "text"}], "usage": {"input_tokens": 1, "output_tokens": 1}}', "application/json"),
        (b'{"content": [], "usage": {"input_tokens": "many"}}', "application/json"),
        (b"", "application/json"),
    ],
)
async def test_what_is_no_message_is_said_so(server, ask, make_request, reply, body, media_type):
    server.script = [reply(body=body, headers={"content-type": media_type})] * 3
    answer = await ask().backend.synthesize(make_request())
    assert "not a message" in answer.failed.reason
    assert [call.error.split(":")[0] for call in answer.calls] == ["malformed"] * 3


async def test_an_answer_without_a_file_is_asked_for_once_more(server, ask, make_request, say, good):
    server.script = [say("Let me think about it."), say(good)]
    answer = await ask().backend.synthesize(make_request())
    assert answer.candidate is not None and len(answer.calls) == 2
    roles = [turn["role"] for turn in server.requests[1]["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert "no fenced" in server.requests[1]["messages"][2]["content"][0]["text"]


async def test_a_truncated_answer_is_no_candidate_even_if_its_block_is_closed(server, ask, make_request, say, good):
    server.script = [say(good, stop_reason="max_tokens")] * 2
    answer = await ask().backend.synthesize(make_request())
    assert "cut off" in answer.failed.reason and len(answer.calls) == 2
    assert answer.calls[0].stop_reason == "max_tokens" and answer.calls[0].output_tokens == 7


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": ""}], [{"type": "text", "text": "  \n"}]])
async def test_an_empty_answer_fails_and_is_not_sent_back(server, ask, make_request, say, content):
    server.script = [say(content)] * 2
    answer = await ask().backend.synthesize(make_request())
    assert "empty" in answer.failed.reason and not answer.failed.retryable
    assert all(turn["role"] == "user" for turn in server.requests[1]["messages"])


async def test_a_refusal_is_final(server, ask, make_request, say):
    server.script = [say("I cannot help with that.", stop_reason="refusal")]
    answer = await ask().backend.synthesize(make_request())
    assert "refused" in answer.failed.reason and len(answer.calls) == 1
    assert answer.calls[0].stop_reason == "refusal"


async def test_thinking_is_not_part_of_the_answer(server, ask, make_request, say, good):
    thinking = {"type": "thinking", "thinking": "```python\nnonsense(\n```", "signature": "x"}
    server.script = [say([thinking, {"type": "text", "text": good}])]
    answer = await ask().backend.synthesize(make_request())
    assert answer.candidate is not None and answer.calls[0].completion == good


async def test_a_file_that_was_tried_already_is_refused(server, ask, make_request, say, good):
    server.script = [say(good)]
    first = (await ask().backend.synthesize(make_request())).candidate
    server.script = [say(good)] * 2
    answer = await ask().backend.synthesize(make_request(tried=(Attempt(node="n7", source=first.source),)))
    assert "n7" in answer.failed.reason


async def test_the_key_never_shows(server, ask, make_request, say, fail, good, key):
    server.script = [fail(401, "authentication_error", f"{key} is invalid")]
    asked = ask(url=server.url.replace("//", "//user:password@"))
    answer = await asked.backend.synthesize(make_request())
    server.script = [say(f"{key}\n{good}")]
    second = await ask().backend.synthesize(make_request())
    events = [answer.failed, *answer.calls, second.candidate, *second.calls]
    text = b"".join(encode(event) for event in events).decode() + repr(asked.backend._settings)
    assert key not in text and "password" not in text


async def test_a_missing_key_is_an_answer_too(make_request):
    from kernelswarm.agents.synthesizer.anthropic import AnthropicBackend

    answer = await AnthropicBackend().synthesize(make_request())
    assert "ANTHROPIC_API_KEY" in answer.failed.reason and answer.calls == ()


async def test_the_default_model_is_asked_and_known_to_the_sdk(server, ask, make_request, say, good):
    server.script = [say(good)]
    answer = await ask().backend.synthesize(make_request(model=""))
    assert server.requests[0]["model"] == answer.calls[0].model == DEFAULT_MODEL
    literal, _ = typing.get_args(anthropic.types.Model)
    assert DEFAULT_MODEL in typing.get_args(literal)


def test_the_client_has_every_member_that_autogen_wants():
    assert len(ChatCompletionClient.__abstractmethods__) == 9
    assert not MessagesClient.__abstractmethods__
