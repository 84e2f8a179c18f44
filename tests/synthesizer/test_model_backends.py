"""The real SDKs and AutoGen against a server on loopback, in both formats: what is asked, answered and recorded."""

import asyncio
import json
import re
import socket
import typing

import msgspec
import pytest
from autogen_core.models import ChatCompletionClient
from model_server import Failed, Said
from waiting import within

from kernelswarm.agents.synthesizer.backend import Attempt, open_backend
from kernelswarm.agents.synthesizer.model.client import ModelClient
from kernelswarm.hardware.languages.cpp import LOADER
from kernelswarm.schemas import Intent, MemoryOperator, NodePlanned, Skill, encode, sha256

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SKILL = Skill(
    id="double-1", title="t", pool="cpu", platform="cpu", operators=(), dtype="float32", sizes=(), text="Use pages."
)
PATHS = {"anthropic": "POST /v1/messages HTTP/1.1", "openai": "POST /chat/completions HTTP/1.1"}


def texts(turn: dict) -> str:
    """Of a message in either format."""
    content = turn["content"]
    return content if isinstance(content, str) else "\n\n".join(block["text"] for block in content)


async def test_a_good_answer_becomes_a_candidate_and_a_call(vendor, server, ask, make_request, good):
    server.script = [Said(good, usage={"input": 11, "output": 7, "read": 5, "write": 3})]
    plan = NodePlanned(parent="n0", intent=Intent.improve, memory=MemoryOperator.inherit)
    answer = await ask().backend.synthesize(make_request(plan=plan, skills=(SKILL,)))
    candidate = answer.candidate
    assert LOADER in candidate.source and "def kernel(x):" in candidate.source
    assert candidate.sha256 == sha256(candidate.source)
    assert (candidate.backend, candidate.language) == (vendor, "cpp")
    assert candidate.rationale == "One pass, no temporaries."
    assert (candidate.parents, candidate.skills) == (("n0",), ("double-1",))
    (call,) = answer.calls
    assert (call.input_tokens, call.output_tokens, call.cache_read_tokens, call.cache_write_tokens) == (11, 7, 5, 3)
    assert (call.model, call.attempt, call.error, call.backend) == ("claude-test", 1, "", vendor)
    assert call.stop_reason == {"anthropic": "end_turn", "openai": "stop"}[vendor]
    assert call.completion == good and call.latency_ms > 0 and not call.estimated
    encode(answer.candidate), encode(call)


async def test_the_recorded_request_is_the_one_that_was_sent(vendor, server, ask, make_request, good, key):
    server.script = [Said(good)]
    answer = await ask().backend.synthesize(make_request())
    (sent,) = server.requests
    assert {"stream": True, **json.loads(answer.calls[0].request)} == sent
    assert key in server.heads[0].get("authorization", "") + server.heads[0].get("x-api-key", "")
    assert server.heads[0][":line"] == PATHS[vendor]


@pytest.mark.parametrize("vendor", ["anthropic"], indirect=True)
async def test_what_stays_the_same_is_marked_for_caching(server, ask, make_request, good):
    server.script = [Said(good)]
    await ask().backend.synthesize(make_request())
    (body,) = server.requests
    (system,), (turn,) = body["system"], body["messages"]
    assert system["cache_control"] == {"type": "ephemeral"}
    assert [block.get("cache_control") for block in turn["content"]] == [{"type": "ephemeral"}, None]


async def test_requests_of_a_session_begin_alike(server, ask, make_request, good):
    server.script = [Said(good)] * 2
    improve = NodePlanned(parent="n0", intent=Intent.improve, memory=MemoryOperator.inherit)
    for changes in ({}, {"plan": improve, "lineage": (Attempt(node="n0", source="PARENT = 1"),)}):
        await ask().backend.synthesize(make_request(**changes))
    first, second = (text.decode() for text in server.bodies)
    common = next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    assert "A processor" in first[:common], "servers cache what requests begin with: the machine belongs to it"


async def test_temperature_is_sent_only_if_set(server, ask, make_request, good):
    server.script = [Said(good), Said(good)]
    await ask(temperature=0.5).backend.synthesize(make_request())
    await ask().backend.synthesize(make_request())
    assert server.requests[0]["temperature"] == 0.5 and "temperature" not in server.requests[1]


async def test_the_same_request_says_the_same_every_time(server, ask, make_request, good):
    server.script = [Said(good), Said(good)]
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
        (401, "authentication_error", "_API_KEY"),
        (402, "billing_error", "billing"),
        (403, "permission_error", "another --model"),
        (404, "not_found_error", "check --model"),
        (413, "request_too_large", "smaller"),
    ],
)
async def test_what_no_second_try_can_mend_is_asked_once(server, ask, make_request, status, kind, way_out):
    server.script = [Failed(status, kind, "said so")]
    asked = ask()
    answer = await asked.backend.synthesize(make_request())
    assert way_out in answer.failed.reason and "said so" in answer.failed.reason
    assert not answer.failed.retryable and asked.pauses == []
    (call,) = answer.calls
    assert (call.stop_reason, call.completion, call.input_tokens) == ("error", "", 0)
    assert str(status) in call.error


async def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(server, ask, make_request, good):
    server.script = [Failed(429, "rate_limit_error", "slow", {"retry-after": "7"}), Said(good)]
    asked = ask()
    answer = await asked.backend.synthesize(make_request())
    assert answer.candidate is not None
    assert asked.pauses == [7.0]
    assert [call.attempt for call in answer.calls] == [1, 2]
    assert answer.calls[0].error.startswith("rate_limit") and answer.calls[1].error == ""


async def test_a_very_long_rate_limit_fails_at_once_and_may_be_tried_later(server, ask, make_request):
    server.script = [Failed(429, "rate_limit_error", "slow", {"retry-after": "3600"})]
    asked = ask()
    answer = await asked.backend.synthesize(make_request())
    assert answer.failed.retryable and asked.pauses == [] and len(answer.calls) == 1


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_a_quota_that_is_used_up_is_no_rate_limit(server, ask, make_request):
    body = json.dumps({"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "used up"}})
    server.script = [Failed(429, body=body.encode())]
    answer = await ask().backend.synthesize(make_request())
    assert not answer.failed.retryable and answer.calls[0].error.startswith("billing")


@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_server_in_trouble_is_asked_three_times_with_growing_pauses(server, ask, make_request, status):
    server.script = [Failed(status, "overloaded_error", "busy")] * 3
    asked = ask()
    answer = await asked.backend.synthesize(make_request())
    assert answer.failed.retryable
    assert [call.attempt for call in answer.calls] == [1, 2, 3] and len(server.bodies) == 3
    assert asked.pauses == [0.75, 1.5]


async def test_the_server_may_forbid_another_try(server, ask, make_request):
    server.script = [Failed(500, "api_error", "no", {"x-should-retry": "false"})]
    answer = await ask().backend.synthesize(make_request())
    assert len(answer.calls) == 1 and not answer.failed.retryable


async def test_nobody_listens(ask, make_request):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        answer = await ask(url=url).backend.synthesize(make_request())
    assert url in answer.failed.reason and "_BASE_URL" in answer.failed.reason
    assert answer.failed.retryable and len(answer.calls) == 3


async def test_a_dropped_connection_is_tried_again(server, ask, make_request, good):
    server.script = [Failed(drop=True), Said(good)]
    answer = await ask().backend.synthesize(make_request())
    assert answer.candidate is not None and answer.calls[0].error.split(":")[0] in ("connection", "broken_stream")


async def test_an_answer_that_breaks_off_is_tried_again(server, ask, make_request, good):
    server.script = [Said(good, cut=True), Said(good)]
    answer = await ask().backend.synthesize(make_request())
    assert answer.candidate is not None
    assert answer.calls[0].error.split(":")[0] in ("broken_stream", "connection") and not answer.calls[0].completion


async def test_an_error_in_the_middle_of_an_answer_is_tried_again(server, ask, make_request, good):
    server.script = [Said(good, error="overloaded_error"), Said(good)]
    answer = await ask().backend.synthesize(make_request())
    assert answer.candidate is not None
    assert "in the middle" in answer.calls[0].error


async def test_a_server_that_never_answers_times_out(server, ask, make_request):
    server.script = [Failed(hang=True)]
    answer = await ask(timeout_s=0.2, attempts=1).backend.synthesize(make_request())
    assert "within 0.2 s" in answer.failed.reason and answer.failed.retryable
    assert answer.calls[0].error.startswith("timeout")


async def test_cancelling_lets_the_connection_go(server, ask, make_request):
    server.script = [Failed(hang=True)]
    task = asyncio.create_task(ask().backend.synthesize(make_request()))
    await within(server.requested.wait())
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
        (b"", "application/json"),
        (b'event: message_start\ndata: {"type": "message_start"}\n\n', "text/event-stream"),
        (b'event: message_start\ndata: {"type": "mess\n\n', "text/event-stream"),
        (b'data: {"choices": [{"index": 0}]}\n\n', "text/event-stream"),
    ],
)
async def test_what_is_no_message_is_said_so(server, ask, make_request, body, media_type):
    server.script = [Failed(body=body, media_type=media_type)] * 3
    answer = await ask().backend.synthesize(make_request())
    assert "not a message" in answer.failed.reason or "broke off" in answer.failed.reason
    assert {call.error.split(":")[0] for call in answer.calls} <= {"malformed", "broken_stream"}
    assert len(answer.calls) == 3


async def test_an_answer_without_a_file_is_asked_for_once_more(server, ask, make_request, good):
    server.script = [Said("Let me think about it."), Said(good)]
    answer = await ask().backend.synthesize(make_request())
    assert answer.candidate is not None and len(answer.calls) == 2
    turns = [turn for turn in server.requests[1]["messages"] if turn["role"] != "system"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert "no fenced" in texts(turns[2])


async def test_a_truncated_answer_is_no_candidate_even_if_its_block_is_closed(server, ask, make_request, good):
    server.script = [Said(good, stop="length")] * 2
    answer = await ask().backend.synthesize(make_request())
    assert "cut off" in answer.failed.reason and len(answer.calls) == 2
    assert answer.calls[0].stop_reason in ("max_tokens", "length") and answer.calls[0].output_tokens == 7


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_answer_fails_and_is_not_sent_back(server, ask, make_request, text):
    server.script = [Said(text)] * 2
    answer = await ask().backend.synthesize(make_request())
    assert "empty" in answer.failed.reason and not answer.failed.retryable
    assert all(turn["role"] != "assistant" for turn in server.requests[1]["messages"])


async def test_a_refusal_is_final(server, ask, make_request):
    server.script = [Said("I cannot help with that.", stop="refusal")]
    answer = await ask().backend.synthesize(make_request())
    assert "refused" in answer.failed.reason and len(answer.calls) == 1
    assert answer.calls[0].stop_reason == "refusal"


@pytest.mark.parametrize("vendor", ["anthropic"], indirect=True)
async def test_thinking_is_not_part_of_the_answer(server, ask, make_request, good):
    thinking = {"type": "thinking", "thinking": "```python\nnonsense(\n```", "signature": "x"}
    server.script = [Said(blocks=(thinking, {"type": "text", "text": good}))]
    answer = await ask().backend.synthesize(make_request())
    assert answer.candidate is not None and answer.calls[0].completion == good


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
async def test_tokens_that_the_server_does_not_count_are_estimated(server, ask, make_request, good):
    server.script = [Said(good, usage=None)]
    (call,) = (await ask().backend.synthesize(make_request())).calls
    assert call.estimated and call.input_tokens > 1000 and call.output_tokens == -(-len(good) // 3)


async def test_a_file_that_was_tried_already_is_refused(server, ask, make_request, good):
    server.script = [Said(good)]
    first = (await ask().backend.synthesize(make_request())).candidate
    server.script = [Said(good)] * 2
    answer = await ask().backend.synthesize(make_request(tried=(Attempt(node="n7", source=first.source),)))
    assert "n7" in answer.failed.reason


async def test_the_key_never_shows(server, ask, make_request, good, key):
    server.script = [Failed(401, "authentication_error", f"{key} is invalid")]
    asked = ask(url=server.url.replace("//", "//user:password@"))
    answer = await asked.backend.synthesize(make_request())
    server.script = [Said(f"{key}\n{good}")]
    second = await ask().backend.synthesize(make_request())
    events = [answer.failed, *answer.calls, second.candidate, *second.calls]
    text = b"".join(encode(event) for event in events).decode() + repr(asked.backend._settings)
    assert key not in text and "password" not in text


async def test_a_word_in_place_of_a_key_is_left_in_sources(server, ask, make_request, good):
    server.script = [Said(good)]
    answer = await ask(key="torch").backend.synthesize(make_request())
    assert "import torch" in answer.candidate.source


async def test_a_missing_key_is_an_answer_too(vendor, make_request):
    backend = open_backend(vendor)
    answer = await backend.synthesize(make_request())
    assert backend.vendor.key_variable in answer.failed.reason and answer.calls == ()


@pytest.mark.parametrize("named_here", [True, False])
async def test_a_key_goes_only_to_an_address_that_its_user_named(monkeypatch, named_here):
    from kernelswarm.agents.synthesizer.authors import check_authors, parse_authors

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    url = f"https://models.example/{named_here}/v1"
    if named_here:
        check_authors(parse_authors("openai", "m", url))
    backend = open_backend("openai")
    assert backend.settings_for(url).key == ("sk-secret" if named_here else "")


def test_the_default_models_are_known_to_the_sdks():
    # Here and not above: every worker imports this file, and the SDKs take a second and a half.
    import anthropic.types
    import openai.types

    assert open_backend("anthropic").vendor.model in typing.get_args(typing.get_args(anthropic.types.Model)[0])
    assert open_backend("openai").vendor.model in typing.get_args(openai.types.ChatModel)


def test_the_client_has_every_member_that_autogen_wants():
    assert len(ChatCompletionClient.__abstractmethods__) == 9
    assert not ModelClient.__abstractmethods__
