"""Roles that ask a model: over the real libraries to a server on loopback, on a real bus. Rules stay the fallback."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from model_server import Failed, ModelServer, Said, model_server
from waiting import within

import given
from kernelswarm.agents.analyst.agent import Analyst
from kernelswarm.agents.analyst.by_model import consultation
from kernelswarm.agents.analyst.diagnose import diagnose
from kernelswarm.agents.consulting import Unusable, json_object
from kernelswarm.agents.distiller.by_model import read as distiller_read
from kernelswarm.agents.model_adviser import ModelAdviser
from kernelswarm.agents.planner.agent import Planner
from kernelswarm.agents.runtime import Work
from kernelswarm.agents.synthesizer.authors import check_authors, check_prices, parse_authors
from kernelswarm.agents.synthesizer.role_models import parse_role_models
from kernelswarm.bus import Bus
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.knowledge import Trial, distill
from kernelswarm.schemas import (
    Advice,
    AdviceAction,
    Bottleneck,
    CandidateProfiled,
    ChoiceMade,
    ChoicesOffered,
    Event,
    InputError,
    Intent,
    MemoryOperator,
    ModelCalled,
    NodeChoice,
    NodeDiagnosed,
    RoleDecided,
    RoleModel,
    SkillDistilled,
    StopRequested,
    SynthesisFailed,
    Verdict,
    encode,
)
from kernelswarm.sessions.replay import Replay
from kernelswarm.sessions.session import SearchOptions

KEY = "sk-test-0123456789-secret"
DIAGNOSIS = {
    "bottleneck": "latency",
    "summary": "Dependent loads.",
    "advice": [{"action": "faster_lookup", "reason": "Sort first.", "weight": 3}],
}


@pytest.fixture(params=["anthropic", "openai"])
async def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with model_server() as scripted:
        vendor = request.param
        monkeypatch.setenv(f"{vendor.upper()}_API_KEY", KEY)
        monkeypatch.setenv(f"{vendor.upper()}_BASE_URL", scripted.url)
        scripted.vendor = vendor  # type: ignore[attr-defined]
        yield scripted


def work_on(event: Event, vendor: str, **opened: object) -> Work:
    roles = (RoleModel(role="analyst", backend=vendor, model="claude-opus-5-5"),)
    graph = SearchGraph("s-test1")
    graph.apply(given.envelope_of(given.opened(roles=roles, **opened)), given.opened(roles=roles, **opened))
    envelope = given.envelope_of(event, node="n001", cause="n001")
    graph.apply(envelope, event)
    return Work(envelope, event, graph, 1)


async def analysed(bus: Bus, tmp_path, work: Work) -> list[Event]:
    analyst = Analyst(ModelAdviser(bus, tmp_path))
    try:
        return [answer.event for answer in await analyst.handle(work)]
    finally:
        await analyst.close()


PROFILED = CandidateProfiled(report=given.profile(1.0, 2.0))


def ruled(work: Work) -> NodeDiagnosed:
    return diagnose(work.graph, "n001", work.event)


async def test_a_model_names_limit_and_advice_and_the_numbers_stay_measured(bus, server, tmp_path):
    server.script = [Said(text=f"Here it is:\n```json\n{json.dumps(DIAGNOSIS)}\n```")]
    work = work_on(PROFILED, server.vendor)
    called, decided, diagnosed = await analysed(bus, tmp_path, work)
    rules = ruled(work)
    assert isinstance(called, ModelCalled) and called.role == "analyst" and called.backend == server.vendor
    assert isinstance(decided, RoleDecided) and decided.by_model and decided.reason == "Dependent loads."
    assert (diagnosed.bottleneck, diagnosed.advice[0].action) == (Bottleneck.latency, "faster_lookup")
    assert (diagnosed.fitness, diagnosed.speedup, diagnosed.verdict) == (rules.fitness, rules.speedup, rules.verdict)
    assert diagnosed.summary == f"{rules.summary}; Dependent loads."


@pytest.mark.parametrize("bottleneck", [each for each in Bottleneck if each is not Bottleneck.fault])
def test_a_summary_names_the_limit_of_the_rules_only_where_the_model_agrees(bottleneck: Bottleneck):
    work = work_on(PROFILED, "openai", names_one_limit=True)
    rules = ruled(work)
    asking = consultation(work.graph, "n001", work.event, rules)
    assert asking is not None and "; limited by " in rules.summary
    diagnosed = asking.read(json.dumps(DIAGNOSIS | {"bottleneck": bottleneck})).outcome
    measured = rules.summary if bottleneck is rules.bottleneck else rules.summary.partition("; limited by ")[0]
    assert diagnosed.summary == f"{measured}; Dependent loads."


FAULTS = {
    "no JSON twice": ([Said(text="slow"), Said(text="still slow")], 2, "no complete JSON object"),
    "another verdict": ([Said(text=json.dumps(DIAGNOSIS | {"bottleneck": "fault"}))] * 2, 2, "it works: no fault"),
    "no action": ([Said(text=json.dumps(DIAGNOSIS | {"advice": [{"action": "pray"}]}))] * 2, 2, "action is 'pray'"),
    "a refusal": ([Said(text="I will not.", stop="refusal")] * 2, 2, "no complete JSON object"),
    "cut off": ([Said(text=json.dumps(DIAGNOSIS)[:40], stop="length")] * 2, 2, "no complete JSON object"),
    "no such key": ([Failed(401, "authentication_error", "who?")], 1, "does not accept the key"),
    "no such model": ([Failed(404, "not_found_error", "none")], 1, "has no model"),
    "a long pause": ([Failed(429, "rate_limit_error", "later", {"retry-after": "60"})], 1, "limits the rate"),
    "nothing at all": ([Failed(drop=True)] * 2, 2, "cannot reach"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_goes_wrong_the_rules_decide_and_why_is_an_event(bus, server, tmp_path, fault, monkeypatch):
    script, requests, reason = FAULTS[fault]
    server.script = list(script)
    monkeypatch.setattr("kernelswarm.agents.synthesizer.model.client.pause_before", _at_once)
    work = work_on(PROFILED, server.vendor)
    *called, decided, diagnosed = await analysed(bus, tmp_path, work)
    assert len(called) == requests and not decided.by_model
    assert reason in decided.reason + decided.fault
    assert diagnosed == ruled(work)


def _at_once(attempt: int, fault, jitter: float) -> float:
    return fault.wait_s or 0.0


async def test_without_a_key_the_rules_decide_and_nobody_is_asked(bus, server, tmp_path, monkeypatch):
    monkeypatch.delenv(f"{server.vendor.upper()}_API_KEY")
    monkeypatch.delenv(f"{server.vendor.upper()}_BASE_URL")
    work = work_on(PROFILED, server.vendor)
    decided, diagnosed = await analysed(bus, tmp_path, work)
    assert "needs a key" in decided.fault and diagnosed == ruled(work) and not server.bodies


async def test_the_session_s_limit_of_money_binds_roles_as_well(bus, server, tmp_path):
    (tmp_path / "prices.toml").write_text(
        'date = "2026-11-01"\n[models]\n"claude-opus-5-5" = { input = 2.0, output = 10.0 }\n'
    )
    work = work_on(PROFILED, server.vendor, max_cost=0.001)
    decided, diagnosed = await analysed(bus, tmp_path, work)
    assert "--max-cost" in decided.fault and diagnosed == ruled(work) and not server.bodies


async def test_where_there_is_no_candidate_nobody_is_asked(bus, server, tmp_path):
    work = work_on(SynthesisFailed(backend="anthropic", reason="overloaded"), server.vendor)
    (diagnosed,) = await analysed(bus, tmp_path, work)
    assert diagnosed == ruled(work) and not server.bodies


async def test_a_step_that_was_killed_goes_on_from_what_it_had_published(bus, server, tmp_path):
    """The answer is in the log already: it is not asked for, and paid for, twice."""
    server.script = [Said(text=json.dumps(DIAGNOSIS))]
    work = work_on(PROFILED, server.vendor)
    first = await analysed(bus, tmp_path, work)
    seq = await bus.publish(work.envelope)
    await bus.publish(given.envelope_of(first[0], node="n001", cause=work.envelope.id))
    assert await analysed(bus, tmp_path, Work(work.envelope, work.event, work.graph, seq)) == first
    assert len(server.bodies) == 1


async def test_the_key_is_in_no_event_whatever_the_server_says(bus, server, tmp_path):
    echo = DIAGNOSIS | {"summary": f"Your key is {KEY}.", "advice": [{"action": "vectorize", "reason": KEY}]}
    server.script = [Failed(500, "api_error", f"bad {KEY}"), Said(text=json.dumps(echo))]
    events = await analysed(bus, tmp_path, work_on(PROFILED, server.vendor))
    assert all(KEY.encode() not in encode(event) for event in events)
    assert events[-1].advice[0].reason == "[key]"


async def test_a_replay_settles_the_recorded_answers_and_asks_in_the_same_words(bus, server, tmp_path):
    server.script = [Said(text="slow"), Said(text=json.dumps(DIAGNOSIS))]
    work = work_on(PROFILED, server.vendor)
    answers = await analysed(bus, tmp_path, work)
    replaying = Replay("s-test1")
    opened = given.envelope_of(work.graph.opened)
    history = [opened, work.envelope, *(sealed(event, work, index) for index, event in enumerate(answers))]
    for seq, envelope in enumerate(history, 1):
        replaying.feed(seq, envelope, envelope.event())
    report = replaying.finish()
    assert report.compared["analyst"] == 2 and report.prompts == 2 and report.prompts_changed == ()


def sealed(event: Event, work: Work, index: int):
    index = index if isinstance(event, ModelCalled) else 0
    return given.envelope_of(event, node="n001", cause=work.envelope.id, index=index)


def test_models_of_roles_stand_beside_those_of_authors():
    authors = parse_authors("generator,openai", "qwen3:8b,analyst=openai:m,planner=claude-x")
    assert authors[1].model == "qwen3:8b"
    roles = parse_role_models("qwen3:8b,analyst=openai:m,planner=claude-x", authors, "http://h/v1")
    assert [(role.role, role.backend, role.model, role.base_url) for role in roles] == [
        ("analyst", "openai", "m", "http://h/v1"),
        ("planner", "openai", "claude-x", "http://h/v1"),
    ]
    (alone,) = parse_role_models("distiller=claude-x", parse_authors("generator"))
    assert (alone.backend, alone.model) == ("anthropic", "claude-x")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "analyst="}, "write analyst=NAME"),
        ({"model": "analyst=a,analyst=b"}, "analyst is named twice"),
        ({"model": "anlyst=a"}, "AUTHOR=NAME"),
        ({"model": "analyst=a", "base_url": "http://u:secret@h"}, "a user or a password"),
        ({"model": "analyst=a", "base_url": "http://h?key=secret"}, "with a query"),
    ],
)
def test_a_role_s_model_that_is_none_is_bad_input(options, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        SearchOptions(**options).check()
    assert "secret" not in str(caught.value)


def test_a_role_without_key_or_price_is_one_sentence_before_a_session_opens(monkeypatch, tmp_path):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    options = SearchOptions(model="analyst=claude-nobody-knows")
    with pytest.raises(InputError, match=r"analyst=claude-nobody-knows.*needs a key"):
        check_authors(options.authors, options.roles)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    check_authors(options.authors, options.roles)
    odd = SearchOptions(model="analyst=anthropic:nobody-knows")
    with pytest.raises(InputError, match="--max-cost needs to know"):
        check_prices(odd.authors, tmp_path, odd.roles)


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": 1}', {"a": 1}), ('no {this} but {"a": {"b": 2}} so', {"a": {"b": 2}}), ('{"a": "}"} {', {"a": "}"})],
)
def test_the_object_in_an_answer_is_read_wherever_it_stands(text, value):
    assert json_object(text) == value


@pytest.mark.parametrize("text", ["", "[]", '{"a": ', "{" * 3000])
def test_an_answer_without_an_object_is_unusable(text):
    with pytest.raises(Unusable):
        json_object(text)


ADVICE = (Advice(action=AdviceAction.vectorize, reason="r"),)
OFFERED = ChoicesOffered(
    number=2,
    choices=(
        NodeChoice(parent="n001", intent=Intent.improve, memory=MemoryOperator.inherit, advice=ADVICE),
        NodeChoice(parent="n001", intent=Intent.improve, memory=MemoryOperator.siblings),
    ),
)


async def planned(bus: Bus, tmp_path, vendor: str) -> list[Event]:
    roles = (RoleModel(role="planner", backend=vendor, model="claude-opus-5-5"),)
    graph = SearchGraph("s-test1")
    graph.apply(given.envelope_of(given.opened(roles=roles)), given.opened(roles=roles))
    envelope = given.envelope_of(OFFERED, node="n002", cause="n001")
    graph.apply(envelope, OFFERED)
    assert "n002" not in graph.nodes, "it may never be planned"
    planner = Planner(ModelAdviser(bus, tmp_path))
    try:
        return [answer.event for answer in await planner.handle(Work(envelope, OFFERED, graph, 1))]
    finally:
        await planner.close()


async def test_a_planner_s_model_chooses_and_says_why(bus, server, tmp_path):
    server.script = [Said(text='{"choice": 2, "why": "Siblings show  what failed."}')]
    called, decided, made = await planned(bus, tmp_path, server.vendor)
    assert called.role == "planner" and decided.by_model
    assert made == ChoiceMade(number=2, choice=1, reason="Siblings show what failed.")
    assert "vectorize: r" in json.dumps(server.requests[0])


@pytest.mark.parametrize("answer", ["{}", '{"choice": 3, "why": "x"}', '{"choice": true, "why": "x"}', '{"choice": 1}'])
async def test_a_choice_of_what_was_not_offered_leaves_the_policy_s(bus, server, tmp_path, answer):
    server.script = [Said(text=answer)] * 2
    *called, decided, made = await planned(bus, tmp_path, server.vendor)
    assert len(called) == 2 and not decided.by_model and decided.reason
    assert made == ChoiceMade(number=2, choice=0)


async def test_nobody_waits_for_a_model_once_the_session_is_to_end(bus, server, tmp_path):
    server.script = [Failed(hang=True)]
    await bus.publish(given.envelope_of(OFFERED, node="n002", cause="n001"))
    asking = asyncio.create_task(planned(bus, tmp_path, server.vendor))
    await server.requested.wait()
    await bus.publish(given.envelope_of(StopRequested(reason="interrupted"), cause="user"))
    called, decided, made = await within(asking)
    assert decided.fault == "the session was asked to end" and made.choice == 0
    assert called.error.startswith("cancelled: ") and called.estimated and called.input_tokens > 100, "it was paid for"
    await within(server.left.wait())


def test_lessons_stand_beside_what_the_rules_counted():
    role = RoleModel(role="distiller", backend="anthropic", model="m")
    skill = distill(given.problem(), given.facts(), given.pool(), [trial()], session="s-test1")
    assert skill is not None
    reading = distiller_read(role, SkillDistilled(skill=skill), '{"lessons": ["Two  passes.", "No more."]}')
    taught = reading.outcome.skill
    assert "## What m makes of it\n\n- Two passes.\n- No more.\n\n## The numbers" in taught.text
    assert taught.id == skill.id and (taught.recipes, taught.speedup) == (skill.recipes, skill.speedup)
    for answer in ("{}", '{"lessons": []}', '{"lessons": [1]}', '{"lessons": [" "]}'):
        with pytest.raises(Unusable):
            distiller_read(role, SkillDistilled(skill=skill), answer)


def trial() -> Trial:
    return Trial(node="n001", parent="", recipe={"threads": 2}, verdict=Verdict.correct, speedup=2.0)
