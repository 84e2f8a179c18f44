"""A whole session with a model and the generator as authors: real bus, log, compilers, checker; the model's server is
on loopback. Then the same session from the log alone."""

import asyncio
import json
from pathlib import Path

import pytest
import zstandard
from model_server import Said, model_server

import given
from kernelswarm.cli.commands.models import from_log
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import (
    CandidateChecked,
    CandidateProposed,
    ChoiceMade,
    ChoicesOffered,
    KnowledgeRetrieved,
    ModelCalled,
    NodeDiagnosed,
    NodePlanned,
    RoleDecided,
    SessionOpened,
    SkillDistilled,
    ToolCalled,
)
from kernelswarm.sessions.conversation import conversation_of
from kernelswarm.sessions.recorded_session import read_session
from kernelswarm.sessions.replay import replay
from kernelswarm.sessions.replay_authors import replay_authors
from kernelswarm.sessions.search import searching
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.store import run_sql
from kernelswarm.store.export import FORMATS, write_export
from kernelswarm.store.question_library import question

MODELS = "claude-opus-5-5,analyst=claude-haiku-4-5,planner=claude-haiku-4-5,distiller=claude-haiku-4-5"

KEY = "sk-secret-of-this-test"

RIGHT = """import torch

def kernel(x, w):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, 1e-6)
# draft {number}
"""


DIAGNOSIS = json.dumps(
    {
        "bottleneck": "overhead",
        "summary": "The call costs more than the arithmetic.",
        "advice": [
            {"action": "less_overhead", "reason": "One kernel in place of two.", "weight": 2},
            {"action": "vectorize", "reason": "The inner loop is scalar."},
        ],
    }
)


def answers() -> object:
    """A model that has a draft checked, reads the verdict, and hands it in; its first diagnosis cannot be used."""
    counts: list[int] = []
    diagnoses: list[str] = []

    def answer(body: dict) -> Said:
        if "You are the analyst" in json.dumps(body["system"]):
            diagnoses.append("It is slow." if not diagnoses else DIAGNOSIS)
            return Said(text=diagnoses[-1])
        if "You are the planner" in json.dumps(body["system"]):
            return Said(text=f'{{"choice": 2, "why": "It has more to gain. {KEY}"}}')
        if "You are the distiller" in json.dumps(body["system"]):
            return Said(text=f'{{"lessons": ["One call of the library is enough. {KEY}"]}}')
        if not any("tool_result" in json.dumps(turn) for turn in body["messages"]):
            counts.append(1)
            return Said(
                tools=(("check", {"source": RIGHT.format(number=len(counts))}),), usage={"input": 900, "output": 300}
            )
        return Said(tools=(("submit", {"source": RIGHT.format(number=len(counts)), "idea": f"One call. {KEY}"}),))

    return answer


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[tuple[str, object]]]:
    home = tmp_path_factory.mktemp("home")
    (home / "pools").mkdir()
    (home / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    (home / "small.py").write_text(given.SOURCE)
    options = SearchOptions(
        budget=2, seed=3, policy_options={"width": 1}, synthesizer="generator,anthropic", model=MODELS, max_cost=5.0
    )

    async def run() -> tuple[str, list[tuple[str, object]]]:
        async with model_server() as server:
            server.answer = answers()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("ANTHROPIC_API_KEY", KEY)
                patch.setenv("ANTHROPIC_BASE_URL", server.url)
                async with searching(load_problem(home / "small.py"), "bare", options, home=home) as running:
                    events = [(envelope.node, event) async for envelope, event in running.events()]
                    return running.session, events

    name, events = asyncio.run(run())
    return home, name, events


def of(session, kind):
    return [(node, event) for node, event in session[2] if isinstance(event, kind)]


def test_the_nodes_are_shared_and_every_author_s_are_judged(session):
    (opened,) = (event for _, event in of(session, SessionOpened))
    assert [(author.name, author.share) for author in opened.authors] == [("playbook", 1), ("anthropic", 1)]
    planned = [event.synthesizer for _, event in of(session, NodePlanned)]
    assert sorted(planned) == ["anthropic", "playbook"]
    assert sorted(event.backend for _, event in of(session, CandidateProposed)) == sorted(planned)


def test_a_draft_is_checked_by_the_checker_before_it_is_handed_in(session):
    checked = of(session, CandidateChecked)
    assert len(checked) == 1 and all(event.verified.verdict == "correct" for _, event in checked)
    results = [event.result for _, event in of(session, ToolCalled) if event.tool == "check"]
    assert len(results) == 1 and all("On small inputs: correct." in result for result in results)


def test_everything_that_was_asked_is_in_the_log_and_the_key_is_not(session):
    home, name, _ = session
    calls = [event for _, event in of(session, ModelCalled)]
    assert len([call for call in calls if not call.role]) == 2 and len(of(session, KnowledgeRetrieved)) == 1
    sql = "SELECT count(*) FROM events WHERE session = ? AND body::VARCHAR LIKE ?"
    counted = [asyncio.run(run_sql(home, sql, params=(name, f"%{text}%"))).rows[0][0] for text in (KEY, "[key]")]
    assert counted[0] == 0 < counted[1], "models repeat it"


def test_nothing_that_was_kept_or_exported_holds_the_key(session, tmp_path):
    home, _, _ = session
    for format in FORMATS:
        asyncio.run(write_export(home, format, tmp_path / format))
    files = [path for folder in (home, tmp_path) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > len(FORMATS)
    for path in files:
        data = path.read_bytes()
        text = zstandard.ZstdDecompressor().decompressobj().decompress(data) if path.suffix == ".zst" else data
        assert KEY.encode() not in text, path


def test_the_conversation_is_told_turn_by_turn_and_nothing_twice(session):
    home, name, _ = session
    recorded = asyncio.run(read_session(home, name))
    (node,) = {node for node, _ in of(session, ToolCalled)}
    turns = conversation_of((envelope for _, envelope in recorded.events), node)
    roles = {turn.title.partition(":")[0] for turn in turns if turn.who == "model"}
    assert {"analyst"} <= roles and "role" in {turn.who for turn in turns}
    turns = turns[next(index for index, turn in enumerate(turns) if turn.who == "knowledge") :][:7]
    assert [turn.who for turn in turns] == ["knowledge", "system", "user", "model", "tool", "model", "tool"]
    assert "calls check" in turns[3].text and "On small inputs: correct." in turns[4].text
    assert "claude-opus-5-5" in turns[3].title and "$" in turns[3].title
    assert conversation_of((envelope for _, envelope in recorded.events), "n999") == ()


def test_the_session_replays_without_a_network(session, monkeypatch):
    home, name, _ = session
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    recorded = asyncio.run(read_session(home, name))
    report = replay(name, recorded.events, before=recorded.before)
    authors = asyncio.run(replay_authors(recorded))
    assert (authors.prompts, authors.prompts_changed) == (2, ()), "to the byte"
    assert (authors.candidates, authors.candidates_changed) == (1, ())
    assert report.status == "closed" and report.compared["planner"] >= 3
    asked = [event for _, event in of(session, ModelCalled) if event.role]
    assert report.prompts == len(asked) and report.prompts_changed == ()


def test_a_role_decides_by_its_model_and_says_so(session):
    decided = [(node, event) for node, event in of(session, RoleDecided) if event.role == "analyst"]
    assert len(decided) == 2 and all(event.by_model and not event.fault for _, event in decided)
    calls = [event for _, event in of(session, ModelCalled) if event.role == "analyst"]
    assert len(calls) == 3, "an answer that cannot be used is asked for once more"
    assert {call.model for call in calls} == {"claude-haiku-4-5"}
    for node, diagnosed in of(session, NodeDiagnosed):
        if node in dict(decided) and not diagnosed.confirmation:
            assert diagnosed.bottleneck == "overhead" and diagnosed.advice[0].action == "less_overhead"
            assert diagnosed.fitness > 0 and "The call costs more" in diagnosed.summary


def test_the_planner_s_model_chooses_and_the_distiller_s_adds_what_it_learned(session):
    offered = of(session, ChoicesOffered)
    made = dict(of(session, ChoiceMade))
    planned = dict(of(session, NodePlanned))
    assert offered and len(made) == len(offered)
    for node, offer in offered:
        picked = offer.choices[made[node].choice]
        assert made[node].choice == 1 and made[node].reason == "It has more to gain. [key]"
        assert (planned[node].parent, planned[node].intent, planned[node].advice) == (
            *(picked.parent, picked.intent, picked.advice),
        )
    ((_, taught),) = of(session, SkillDistilled)
    assert "## What claude-haiku-4-5 makes of it\n\n- One call of the library is enough. [key]" in taught.skill.text
    assert "## The numbers" in taught.skill.text


def test_what_the_roles_cost_is_told_by_role(session):
    home, _, _ = session
    rows = asyncio.run(run_sql(home, question("cost_by_role").sql)).records()
    by_role = {row["role"]: row for row in rows}
    assert by_role["analyst"]["calls"] == 3 and by_role["synthesizer"]["calls"] == 2
    assert by_role["analyst"]["decisions"] == by_role["analyst"]["by_model"] == 2
    _, costs = asyncio.run(from_log(home, ""))
    analyst = next(cost for cost in costs if cost.role == "analyst")
    assert (analyst.calls, analyst.decisions, analyst.by_model) == (3, 2, 2) and analyst.tokens > 0
    assert analyst.median_ms is not None and analyst.median_ms > 0 and analyst.cache_hit_rate == 0
