"""The library of questions: every one answers with the columns it promises; several are checked by hand."""

from collections.abc import Callable, Iterator
from pathlib import Path

import histories
import pytest
from story import Story, story, wire

from given import candidate, diagnosed, opened
from kernelswarm.schemas import (
    Advice,
    AdviceAction,
    InputError,
    Intent,
    Interval,
    MemoryOperator,
    ModelCalled,
    NodePlanned,
    Origin,
    SessionClosed,
)
from kernelswarm.store import Log, log_path, question, questions, run_sql

ALL = {query.name: query for query in questions()}
NEEDED = {"ancestors": {"session": "rmsnorm-a1", "node": "n4"}}


@pytest.fixture
def ask(tmp_path: Path, log: Log) -> Callable:
    """Writes the events down, then asks a question."""

    async def ask(envelopes: list, name: str, **given: object) -> list[dict]:
        log.append(wire(envelopes, log.last_seq() + 1))
        query = question(name)
        return (await run_sql(tmp_path, query.sql, params=query.values(given))).records()

    return ask


def test_there_are_enough_and_each_says_what_it_means() -> None:
    assert len(ALL) >= 20
    for query in ALL.values():
        assert query.title.endswith("?") and query.meaning.endswith(".") and query.columns
        assert all(query.columns.values())
        assert all(f"${name}" in query.sql for name in query.parameters)


def test_no_meaning_ends_at_a_hash_sign() -> None:
    """YAML takes `` #`` for the beginning of a comment."""
    assert ALL["why_candidates_fail"].columns["reason"].endswith("numbers as #")


@pytest.fixture(scope="module", params=[0, 2])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose log holds no session, and one with two."""
    home = tmp_path_factory.mktemp("home")
    with Log.open(log_path(home)) as log:
        for number in range(request.param):
            log.append(wire(story("rmsnorm-a1" if number else "b2", close=bool(number)), log.last_seq() + 1))
        yield home


@pytest.mark.parametrize("name", ALL)
async def test_every_question_answers_with_the_columns_it_promises(home: Path, name: str) -> None:
    query = ALL[name]
    table = await run_sql(home, query.sql, params=query.values(NEEDED.get(name, {})))
    assert table.columns == tuple(query.columns)


def child(history: Story, node: str, parent: str, speedup: float, action: AdviceAction, **changes: object) -> None:
    advice = (Advice(action=action, reason="test"),)
    number = len(history.envelopes)
    history.say(
        NodePlanned(
            parent=parent,
            intent=Intent.improve if parent else Intent.draft,
            memory=MemoryOperator.inherit,
            number=number,
            advice=advice,
        ),
        node=node,
    )
    history.say(candidate(f"# {node}", **changes), node=node, agent="synthesizer")
    history.say(diagnosed(speedup), node=node, agent="analyst")


def family() -> Story:
    """A draft of 1.0, from it 2.0 (vectorize) and 0.5 (simplify), from the first 3.0 (vectorize)."""
    history = Story("family")
    history.say(opened(), agent="user")
    child(history, "n1", "", 1.0, AdviceAction.simplify, skills=("s1",))
    child(history, "n2", "n1", 2.0, AdviceAction.vectorize, recipe={"threads": 2})
    child(history, "n3", "n1", 0.5, AdviceAction.simplify, recipe={"threads": 1})
    child(history, "n4", "n2", 3.0, AdviceAction.vectorize, recipe={"threads": 2})
    return history


async def test_gains_by_diagnosis(ask: Callable) -> None:
    (row,) = await ask(family().envelopes, "gains_by_diagnosis")
    assert row == dict(bottleneck="memory_traffic", children=3, improved=2, median_gain=1.5, best_gain=2.0)
    assert await ask([], "gains_by_diagnosis", device="sm_90") == []
    assert await ask([], "gains_by_diagnosis", device="TEST%") == [row]


async def test_gains_by_advice(ask: Callable) -> None:
    rows = await ask(family().envelopes, "gains_by_advice")
    assert [tuple(row.values()) for row in rows] == [("vectorize", 2, 2, 2, 1.75, 2.0), ("simplify", 1, 1, 0, 0.5, 0.5)]


@pytest.mark.parametrize("name", ["gains_by_advice", "gains_by_diagnosis", "tried_on_operator", "why_candidates_fail"])
async def test_what_authors_ask_is_answered_by_platform(ask: Callable, name: str) -> None:
    everything = await ask(story() + family().envelopes, name)
    assert everything and await ask([], name, platform="%cpu%") == everything
    assert await ask([], name, platform="%nvidia%") == []


async def test_outside_authors(ask: Callable) -> None:
    (envelopes,) = histories.read("v1-outside").values()
    rows = {row["agent"]: row for row in await ask(envelopes, "outside_authors")}
    columns = ("sessions", "hand_ins", "judged", "correct", "checks")
    assert {agent: tuple(row[column] for column in columns) for agent, row in rows.items()} == {
        "alice": (1, 2, 2, 2, 1),
        "bob": (1, 3, 2, 1, 0),
    }


async def test_productive_parents(ask: Callable) -> None:
    first, second = await ask(family().envelopes, "productive_parents")
    assert tuple(first.values()) == ("family", "n2", 2.0, 1, 1, "n4", 3.0)
    assert tuple(second.values()) == ("family", "n1", 1.0, 2, 1, "n2", 2.0)


async def test_tunables_that_win(ask: Callable) -> None:
    rows = await ask(family().envelopes, "tunables_that_win")
    assert [tuple(row.values()) for row in rows] == [
        ("rmsnorm", "threads", "2", 2, 2, 2.5, 3.0),
        ("rmsnorm", "threads", "1", 1, 0, 0.5, 0.5),
    ]


async def test_skills_that_helped(ask: Callable) -> None:
    (row,) = await ask(family().envelopes, "skills_that_helped")
    assert tuple(row.values()) == ("s1", 1, 1.0, 1.0, 1.0, 2.0)


async def test_cost_per_win(ask: Callable) -> None:
    won = story("won")
    lost = Story("lost")
    lost.say(opened(model="m-1"), agent="user")
    call = ModelCalled(backend="anthropic", model="m-1", request="{}", completion="", stop_reason="end_turn",
                       input_tokens=1_000_000, output_tokens=0, cache_read_tokens=1_000_000)  # fmt: skip
    lost.say(call, agent="synthesizer", node="n1")
    lost.say(SessionClosed(reason="budget"))
    (row,) = await ask(won + lost.envelopes, "cost_per_win", input_price=10, output_price=1_000_000)
    cost = (100 * 10 + 20 * 1_000_000) / 1e6 + 1.1 * 10
    assert row == dict(model="m-1", sessions=2, wins=1, calls=2, input_tokens=2_000_100, output_tokens=20,
                       cost=pytest.approx(cost), cost_per_win=pytest.approx(cost))  # fmt: skip


async def test_authors_compared(ask: Callable) -> None:
    lost = Story("lost")
    lost.say(opened(model="m-1"), agent="user")
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate, synthesizer="anthropic")
    lost.say(plan, node="n1")
    call = ModelCalled(backend="anthropic", model="m-1", request="{}", completion="", stop_reason="end_turn",
                       input_tokens=30, output_tokens=10, cache_read_tokens=10, cost=0.25)  # fmt: skip
    lost.say(call, agent="synthesizer", node="n1")
    lost.say(SessionClosed(reason="budget"))
    rows = {(row["author"], row["model"]): row for row in await ask(story("won") + lost.envelopes, "authors_compared")}
    model, generator = rows["anthropic", "m-1"], rows["generator", ""]
    assert (model["model"], model["nodes"], model["wins"], model["cost"], model["tokens"]) == ("m-1", 1, 0, 0.25, 50)
    assert model["cache_hit_rate"] == 0.25 and model["cost_per_win"] is None
    assert generator["wins"] >= 1 and generator["sessions_won"] == 1 and generator["cost"] is None


async def test_an_author_is_compared_by_its_own_model_not_by_those_of_its_sub_agents(ask: Callable) -> None:
    (envelopes,) = histories.read("v2-models").values()
    rows = {(row["author"], row["model"]): row for row in await ask(envelopes, "authors_compared")}
    nodes = {author: row["nodes"] for author, row in rows.items()}
    assert nodes == {("generator", ""): 4, ("anthropic", "claude-opus-5-5"): 8, ("openai", "gpt-6.1-sol"): 7}
    roles = await ask([], "cost_by_role")
    asked_for_nodes = [row["cost"] for row in roles if row["role"] in ("synthesizer", "deep_search", "context_memory")]
    costs = [row["cost"] for row in rows.values() if row["cost"] is not None]
    assert sum(costs) == pytest.approx(sum(asked_for_nodes))


async def test_what_is_too_noisy_is_nobodys_best(ask: Callable) -> None:
    noisy = Story("noisy")
    noisy.open()
    noisy.plan("n1", "", 1, Intent.draft)
    noisy.propose("n1")
    noisy.time("n1", 0.1, speedup=Interval(median=20.0, low=0.5, high=30.0))
    (authors,) = [row for row in await ask(story() + noisy.envelopes, "authors_compared") if row["model"] == ""]
    (tried,) = await ask(story() + noisy.envelopes, "tried_on_operator", operator="aten.mean%")
    assert authors["best_speedup"] < 20 and tried["best_speedup"] < 20
    assert (tried["sessions"], tried["best_session"]) == (2, "rmsnorm-a1")


async def test_where_and_why_candidates_fail(ask: Callable) -> None:
    rows = await ask(story(), "where_candidates_fail")
    assert [(row["state"], row["verdict"], row["nodes"], row["share"]) for row in rows] == [
        ("profiled", "correct", 2, 0.5),
        ("compilation_failed", "compile_error", 1, 0.25),
        ("verification_failed", "wrong_numbers", 1, 0.25),
    ]
    rows = await ask([], "why_candidates_fail")
    assert [tuple(row.values()) for row in rows] == [
        ("compiler", None, "expected ';'", 1, 1),
        ("verifier", "wrong_numbers", "wrong at [#, #]", 1, 1),
    ]


async def test_time_per_stage(ask: Callable) -> None:
    rows = await ask(story(), "time_per_stage")
    # A second between any two events; n3 asks a model before it proposes.
    assert [(row["stage"], row["nodes"], row["median_seconds"]) for row in rows] == [
        ("proposed", 4, 1.0),
        ("compiled", 3, 1.0),
        ("verified", 2, 1.0),
        ("profiled", 2, 1.0),
        ("failed", 2, 1.0),
        ("diagnosed", 4, 1.0),
    ]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert rows[0]["share"] == pytest.approx(5 / 18)


async def test_confirmation_shrinkage(ask: Callable) -> None:
    (row,) = await ask(story(), "confirmation_shrinkage")
    assert row == dict(pool="cpu", finalists=1, median_ratio=0.8, worst_ratio=0.8, lost=0)


async def test_how_sessions_end_counts_searches_and_no_files_that_were_judged_alone(ask: Callable) -> None:
    judged = story("judged", synthesizer="given", candidates=("def kernel(): ...",), evaluation=True)
    (row,) = await ask(story("searched") + judged, "how_sessions_end")
    assert row["sessions"] == 1


async def test_questions_name_authors_as_users_do(ask: Callable) -> None:
    twice = story("one", synthesizer="playbook:1,outside:2") + story("two", synthesizer="playbook:1,outside:2")
    for name in ("budget_to_first_win", "policies_compared"):
        assert {row["author"] for row in await ask(twice, name)} == {"generator:1,outside:2"}
    assert {row["author"] for row in await ask(twice, "duplicate_sources")} == {"generator"}


async def test_budget_to_first_win(ask: Callable) -> None:
    (row,) = await ask(family().envelopes + Story("none").envelopes, "budget_to_first_win")
    assert (row["sessions"], row["with_win"], row["median_candidates"], row["median_seconds"]) == (1, 1, 4, 6.0)


async def test_duplicates_across_sessions(ask: Callable) -> None:
    rows = await ask(story("one") + story("two"), "duplicate_sources")
    assert len(rows) == 4
    assert {(row["proposed"], row["sessions"], row["first_session"]) for row in rows} == {(2, 2, "one")}


async def test_forks_and_ancestors_of_forks_of_forks(ask: Callable) -> None:
    fork = Story("fork")
    fork.say(opened(origin=Origin(session="rmsnorm-a1", node="n2")), agent="user")
    child(fork, "f1", "n2", 6.4, AdviceAction.vectorize)
    again = Story("again")
    again.say(opened(origin=Origin(session="fork", node="n1")), agent="user")
    child(again, "g1", "n1", 1.0, AdviceAction.vectorize)  # n1 is neither its own nor its parent session's
    rows = await ask(story() + fork.envelopes + again.envelopes, "forks_and_seeds")
    assert {(row["session"], row["kind"], row["gain"]) for row in rows} == {
        ("fork", "fork", 2.0),
        ("again", "fork", 1.0 / 6.4),
    }
    rows = await ask([], "ancestors", session="fork", node="f1")
    assert [(row["session"], row["node"], row["speedup"], row["gain"]) for row in rows] == [
        ("fork", "f1", 6.4, 2.0),
        ("rmsnorm-a1", "n2", 3.2, 1.6),
        ("rmsnorm-a1", "n1", 2.0, None),
    ]
    rows = await ask([], "ancestors", session="again", node="g1")
    assert [(row["depth"], row["session"], row["node"]) for row in rows] == [
        (0, "again", "g1"),
        (1, "rmsnorm-a1", "n1"),
    ]


async def test_tried_on_operator(ask: Callable) -> None:
    (row,) = await ask(story(), "tried_on_operator", operator="aten.mean%")
    assert tuple(row.values()) == ("rmsnorm", "test cpu", "playbook", 1, 4, 2, 1, 3.2, "rmsnorm-a1")
    assert await ask([], "tried_on_operator", operator="aten.bmm%") == []


async def test_waiting_nodes(ask: Callable) -> None:
    (row,) = await ask(story(close=False)[:4], "waiting_nodes")
    assert tuple(row.values()) == ("cpu", "proposed", 1, "rmsnorm-a1", "n1", 1.0)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("no_such", {}, "no question 'no_such'"),
        ("../query", {}, "no question"),
        ("cost_per_win", {"price": 1}, "no parameter 'price'; it has: input_price, output_price"),
        ("cost_per_win", {"input_price": "dear"}, "is 'dear', not a number"),
        ("ancestors", {"node": "n1"}, "needs its parameter session"),
    ],
)
def test_a_question_that_cannot_be_asked_says_why(name: str, given: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        question(name).values(given)
