"""Roles that ask a model for JSON by a schema: in both vendors' formats, over their libraries; a server that refuses a
schema is asked in words."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from model_server import Failed, ModelServer, Said, model_server

import given
from kernelswarm.agents.analyst.agent import Analyst
from kernelswarm.agents.analyst.by_model import consultation as analyst_question
from kernelswarm.agents.analyst.diagnose import diagnose
from kernelswarm.agents.distiller.by_model import consultation as distiller_question
from kernelswarm.agents.model_adviser import ModelAdviser
from kernelswarm.agents.planner.by_model import consultation as planner_question
from kernelswarm.agents.runtime import Work
from kernelswarm.bus import Bus
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.knowledge import Trial, distill
from kernelswarm.schemas import (
    Bottleneck,
    CandidateProfiled,
    ChoicesOffered,
    CompilationFailed,
    CompileReport,
    Event,
    Intent,
    MemoryOperator,
    ModelCalled,
    NodeChoice,
    NodeDiagnosed,
    RoleModel,
    SkillDistilled,
    Verdict,
)
from kernelswarm.sessions.asking import asks_the_same
from kernelswarm.sessions.replay import Replay

MODEL = "claude-opus-5-5"
DIAGNOSIS = {
    "bottleneck": "latency",
    "summary": "Dependent loads.",
    "advice": [{"action": "faster_lookup", "reason": "Sort first.", "weight": 3}],
}
USABLE = Said(text=json.dumps(DIAGNOSIS))
PROFILED = CandidateProfiled(report=given.profile(1.0, 2.0))
ROLES = tuple(RoleModel(role=role, backend="openai", model=MODEL) for role in ("analyst", "planner", "distiller"))


@pytest.fixture(params=["anthropic", "openai"])
async def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with model_server() as scripted:
        vendor = request.param
        monkeypatch.setenv(f"{vendor.upper()}_API_KEY", "sk-test-0123456789-secret")
        monkeypatch.setenv(f"{vendor.upper()}_BASE_URL", scripted.url)
        scripted.vendor = vendor  # type: ignore[attr-defined]
        yield scripted


def graph_of(event: Event, session: str = "s-test1", **opened: Any) -> tuple[SearchGraph, Any]:
    graph, first = SearchGraph(session), given.opened(**{"roles": ROLES, "structures_answers": True, **opened})
    graph.apply(given.envelope_of(first), first)
    envelope = given.envelope_of(event, node="n001", cause="n001", session=session)
    graph.apply(envelope, event)
    return graph, envelope


def work_on(vendor: str, session: str = "s-test1", **opened: Any) -> Work:
    roles = (RoleModel(role="analyst", backend=vendor, model=MODEL),)
    graph, envelope = graph_of(PROFILED, session, roles=roles, **opened)
    return Work(envelope, PROFILED, graph, 1)


async def analysed(bus: Bus, home, works: list[Work]) -> list[list[Event]]:
    """By one process."""
    analyst = Analyst(ModelAdviser(bus, home))
    try:
        return [[answer.event for answer in await analyst.handle(work)] for work in works]
    finally:
        await analyst.close()


def schema_in(body: dict[str, Any]) -> dict[str, Any] | None:
    if "output_config" in body:
        form = body["output_config"]["format"]
    elif "response_format" in body:
        assert body["response_format"]["type"] == "json_schema"
        form = {"type": "json_schema", **body["response_format"]["json_schema"]}
        assert form.pop("name") == "answer" and form.pop("strict") is True
    else:
        return None
    assert form.keys() == {"type", "schema"} and form["type"] == "json_schema"
    return form["schema"]


async def test_an_answer_is_asked_for_by_its_schema_and_read_as_ever(bus, server, tmp_path):
    server.script = [USABLE]
    work = work_on(server.vendor)
    ((called, decided, diagnosed),) = await analysed(bus, tmp_path, [work])
    (body,) = server.requests
    question = analyst_question(work.graph, "n001", PROFILED, diagnose(work.graph, "n001", PROFILED)).question
    assert schema_in(body) == question.answer_schema and question.answer_schema is not None
    assert decided.by_model and diagnosed.bottleneck is Bottleneck.latency
    assert schema_in(json.loads(called.request)) == question.answer_schema


async def test_older_sessions_ask_in_words(bus, server, tmp_path):
    server.script = [USABLE]
    await analysed(bus, tmp_path, [work_on(server.vendor, structures_answers=False)])
    assert schema_in(server.requests[0]) is None


REFUSALS = {
    "400": Failed(400, "invalid_request_error", "unknown parameter"),
    "422": Failed(422, "unprocessable", "extra fields are not permitted"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_server_that_takes_no_schema_is_asked_in_words_and_refuses_once_a_session(
    bus, server, tmp_path, refusal
):
    works = [work_on(server.vendor, session) for session in ("s-test1", "s-test1", "s-test2")]
    server.script = [REFUSALS[refusal], USABLE, USABLE, USABLE]
    first, second, third = await analysed(bus, tmp_path, works)
    assert [schema_in(body) is not None for body in server.requests] == [True, False, False, True]
    refused, answered, decided, diagnosed = first
    assert isinstance(refused, ModelCalled) and refused.error.endswith("asked again without the schema of the answer")
    assert not answered.error and decided.by_model and diagnosed.bottleneck is Bottleneck.latency
    assert len(second) == len(third) == 3 and all(each[-2].by_model for each in (second, third))


async def test_a_second_answer_is_asked_for_in_the_same_way(bus, server, tmp_path):
    server.script = [REFUSALS["400"], Said(text="slow"), USABLE]
    ((*called, decided, _),) = await analysed(bus, tmp_path, [work_on(server.vendor)])
    assert len(called) == 3 and decided.by_model
    assert [schema_in(body) is not None for body in server.requests] == [True, False, False]


async def test_a_request_that_is_refused_in_words_too_says_nothing_of_schemas(bus, server, tmp_path):
    server.script = [REFUSALS["400"], REFUSALS["400"], USABLE]
    first, second = await analysed(bus, tmp_path, [work_on(server.vendor), work_on(server.vendor)])
    assert not first[-2].by_model and "refused the request" in first[-2].fault and second[-2].by_model
    assert [schema_in(body) is not None for body in server.requests] == [True, False, True]


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_replay_knows_either_request(bus, server, tmp_path, refuses):
    server.script = [*([REFUSALS["400"]] if refuses else []), USABLE]
    work = work_on(server.vendor)
    (events,) = await analysed(bus, tmp_path, [work])
    replaying, history = Replay("s-test1"), [given.envelope_of(work.graph.opened), work.envelope]
    for index, event in enumerate(events):
        number = index if isinstance(event, ModelCalled) else 0
        history.append(given.envelope_of(event, node="n001", cause=work.envelope.id, index=number))
    for seq, envelope in enumerate(history, 1):
        replaying.feed(seq, envelope, envelope.event())
    report = replaying.finish()
    assert (report.compared["analyst"], report.prompts, report.prompts_changed) == (2, 1 + refuses, ())


async def test_a_request_by_another_schema_is_another_question(bus, server, tmp_path):
    server.script = [USABLE]
    work = work_on(server.vendor)
    ((called, *_),) = await analysed(bus, tmp_path, [work])
    older = work_on(server.vendor, structures_answers=False)
    asked = [analyst_question(w.graph, "n001", PROFILED, diagnose(w.graph, "n001", PROFILED)) for w in (work, older)]
    assert [asks_the_same(called, each.question) for each in asked] == [True, False]


def test_schemas_are_closed_and_name_what_may_be_answered():
    limits = {
        verdict: schema_of(event)["properties"]["bottleneck"]["enum"]
        for verdict, event in (
            (Verdict.correct, PROFILED),
            (Verdict.compile_error, CompilationFailed(report=CompileReport(ok=False, language="cpp", compiler="g++"))),
        )
    }
    assert limits[Verdict.compile_error] == ["fault"]
    assert limits[Verdict.correct] == [limit.value for limit in Bottleneck if limit is not Bottleneck.fault]
    choices = (NodeChoice(parent="n001", intent=Intent.improve, memory=MemoryOperator.inherit),) * 3
    offered = ChoicesOffered(number=2, choices=choices)
    graph, _ = graph_of(offered)
    chosen = planner_question(graph, offered).question.answer_schema
    assert chosen["properties"]["choice"] == {"type": "integer", "enum": [1, 2, 3]}
    trial = Trial(node="n001", parent="", recipe={"threads": 2}, verdict=Verdict.correct, speedup=2.0)
    skill = distill(given.problem(), given.facts(), given.pool(), [trial], session="s-test1")
    taught = distiller_question(graph, SkillDistilled(skill=skill)).question.answer_schema
    for schema in (schema_of(PROFILED), chosen, taught):
        assert schema == closed(schema)


@pytest.mark.parametrize(
    ("platform", "structures_answers", "offered"),
    [("cpu", True, True), ("nvidia", True, False), ("nvidia", False, True)],
)
def test_advice_for_a_processor_alone_is_not_offered_to_an_accelerator_s_analyst(platform, structures_answers, offered):
    graph, _ = graph_of(PROFILED, pool=given.pool(platform=platform), structures_answers=structures_answers)
    question = analyst_question(graph, "n001", PROFILED, diagnose(graph, "n001", PROFILED)).question
    assert ("avoid_page_faults" in question.system) is offered
    assert ("avoid_page_faults" in str(question.answer_schema)) is (offered and structures_answers)


def schema_of(event: Event) -> dict[str, Any]:
    graph, _ = graph_of(event)
    ruled = diagnose(graph, "n001", event)
    assert isinstance(ruled, NodeDiagnosed)
    return analyst_question(graph, "n001", event, ruled).question.answer_schema


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` as strict modes want it: every object has all of its properties and no others; no bounds."""
    kept = {name: schema[name] for name in ("type", "enum") if name in schema}
    if schema["type"] == "array":
        return {**kept, "items": closed(schema["items"])}
    if schema["type"] != "object":
        return kept
    fields = {name: closed(field) for name, field in schema["properties"].items()}
    return {**kept, "properties": fields, "required": list(fields), "additionalProperties": False}
