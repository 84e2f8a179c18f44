"""Replay of a recorded search with two authors that ask models, tools, sub-agents and roles: no network, no key, the
same prompts to the byte, the same decisions."""

import json
import socket
from collections.abc import Sequence

import histories
import msgspec
import pytest

from kernelswarm.agents.synthesizer.model import conversation
from kernelswarm.agents.synthesizer.model.extract import ExtractedCandidate, Rejected
from kernelswarm.schemas import (
    CandidateProposed,
    Envelope,
    Event,
    KnowledgeRetrieved,
    ModelCalled,
    RoleDecided,
    SynthesisFailed,
    ToolCalled,
    encode,
)
from kernelswarm.sessions.recorded_session import RecordedSession
from kernelswarm.sessions.replay import replay
from kernelswarm.sessions.replay_authors import replay_authors, with_authors

RECORDED = [name for name in histories.names() if name.endswith("-models")]
LATEST = RECORDED[-1]
"""Recorded by the version whose words new requests have: see tests/histories/README.md."""


FAULTS = {"", "overloaded", "broken_stream", "invalid_request"}
"""The last is what a server says that takes no schema of an answer."""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a replay opened a connection")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for vendor in ("ANTHROPIC", "OPENAI"):
        monkeypatch.delenv(f"{vendor}_API_KEY", raising=False)
        monkeypatch.delenv(f"{vendor}_BASE_URL", raising=False)


@pytest.fixture(scope="module")
def events() -> list[Envelope]:
    (recorded,) = histories.read(LATEST).values()
    return recorded


def of(events: Sequence[Envelope], kind: type[Event]) -> list[Event]:
    return [event for envelope in events if isinstance(event := envelope.event(), kind)]


def _reads_nothing(completion: str) -> ExtractedCandidate:
    raise Rejected("this reader reads nothing")


def past(events: Sequence[Envelope]) -> RecordedSession:
    return RecordedSession(events[0].session, list(enumerate(events, 1)))


def changed(events: Sequence[Envelope], at: int, **fields: object) -> list[Envelope]:
    event = msgspec.structs.replace(events[at].event(), **fields)  # type: ignore[type-var]
    return [*events[:at], msgspec.structs.replace(events[at], body=msgspec.Raw(encode(event))), *events[at + 1 :]]


def test_the_history_holds_what_there_is_to_replay(events: list[Envelope]) -> None:
    calls, tools = of(events, ModelCalled), of(events, ToolCalled)
    assert {(call.backend, call.role) for call in calls} >= {  # type: ignore[attr-defined]
        *(("anthropic", ""), ("openai", ""), ("anthropic", "deep_search"), ("openai", "context_memory")),
        *(("openai", "analyst"), ("anthropic", "planner"), ("anthropic", "distiller")),
    }
    assert {call.tool for call in tools} >= {"history", "show_node", "deep_search", "check", "compile", "submit"}  # type: ignore[attr-defined]
    assert {call.error.partition(":")[0] for call in calls} == FAULTS  # type: ignore[attr-defined]
    assert {call.backend for call in calls if "json_schema" in call.request and not call.error} == {"anthropic"}  # type: ignore[attr-defined]
    assert any("by working set of all cores" in call.request for call in calls if not call.role)  # type: ignore[attr-defined]
    assert any("What is asked of your file:" in call.request for call in calls if not call.role)  # type: ignore[attr-defined]
    assert any(call.blocks for call in calls), "one thinks"  # type: ignore[attr-defined]
    assert any(decided.role == "context_memory" and decided.by_model for decided in of(events, RoleDecided))  # type: ignore[attr-defined]
    assert of(events, SynthesisFailed) and of(events, KnowledgeRetrieved)


@pytest.mark.parametrize("name", RECORDED)
async def test_the_same_prompts_to_the_byte_and_the_same_decisions(name: str) -> None:
    (events,) = histories.read(name).values()
    session = past(events)
    report = with_authors(replay(session.id, session.events), await replay_authors(session))
    assert report.status == "closed" and min(report.compared.values()) > 0
    hint = "this version words its requests otherwise; if that is meant, record another: tests/histories/README.md"
    assert report.prompts_changed == report.candidates_changed == (), hint
    assert report.prompts == len(of(events, ModelCalled))
    by_models = [c for c in of(events, CandidateProposed) if c.backend in ("anthropic", "openai")]  # type: ignore[attr-defined]
    assert report.candidates == len(by_models) > 10


async def test_a_changed_request_or_answer_is_named(events: list[Envelope]) -> None:
    at = next(
        index
        for index, envelope in enumerate(events)
        if isinstance(call := envelope.event(), ModelCalled) and not call.role and "submit" in call.tool_calls
    )
    call = events[at].event()
    assert isinstance(call, ModelCalled)
    reworded = changed(events, at, request=call.request.replace("several engineers", "many engineers"))
    assert (await replay_authors(past(reworded))).prompts_changed == (events[at].id,)
    (submitted,) = json.loads(call.tool_calls)
    other = {**json.loads(submitted["arguments"]), "source": "def kernel(x, w):\n    return x\n"}
    forged = changed(events, at, tool_calls=json.dumps([{**submitted, "arguments": json.dumps(other)}]))
    report = await replay_authors(past(forged))
    proposed = [e.id for e in events if e.cause == events[at].cause and isinstance(e.event(), CandidateProposed)]
    assert report.prompts_changed == () and report.candidates_changed == tuple(proposed)


@pytest.mark.parametrize("name", RECORDED)
async def test_a_reader_that_reads_answers_otherwise_decides_nothing_of_an_old_session(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (events,) = histories.read(name).values()
    session = past(events)
    before = replay(session.id, session.events)
    monkeypatch.setattr(conversation, "candidate_in", _reads_nothing)
    assert replay(session.id, session.events) == before, "decisions go by the recorded candidates and failures"
    authors = await replay_authors(session)
    assert authors.candidates_changed and not authors.prompts_changed, "what is read otherwise is named"


async def test_a_history_that_ends_in_a_conversation_is_replayed_as_far_as_it_goes(events: list[Envelope]) -> None:
    at = [index for index, envelope in enumerate(events) if isinstance(envelope.event(), ToolCalled)][20]
    report = await replay_authors(past(events[: at + 1]))
    assert report.prompts > 0 and report.prompts_changed == ()


async def test_a_replay_may_stop_at_an_event(events: list[Envelope]) -> None:
    at = next(index for index, envelope in enumerate(events) if isinstance(envelope.event(), CandidateProposed))
    report = await replay_authors(past(events), events[at].id)
    whole = await replay_authors(past(events[: at + 1]))
    assert report == whole
