"""The views over a whole session: the vocabulary of users, value by value."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from story import BEGIN_NS, Story, story, wire

from given import against_all, candidate, diagnosed, opened, profile
from given import interval as interval_of
from given import pool as given_pool
from kernelswarm.schemas import CandidateProfiled, Intent, Origin, SessionClosed, ShapeTiming
from kernelswarm.store import Log, Table, log_path, run_sql
from kernelswarm.store.views import VIEWS


@pytest.fixture
def ask(tmp_path: Path, log: Log) -> Callable:
    """Writes the events down, then asks."""

    async def ask(envelopes: list, sql: str) -> list[dict]:
        log.append(wire(envelopes, log.last_seq() + 1))
        return (await run_sql(tmp_path, sql)).records()

    return ask


async def test_sessions_closed(ask: Callable) -> None:
    (row,) = await ask(story(), "FROM sessions")
    expected = dict(session="rmsnorm-a1", problem="rmsnorm", pool="cpu", status="closed", reason="budget", win=True,
        speedup=3.2, against="eager", best="n2", candidates=4, correct=2, wins=2, budget=12, seed=7, policy="greedy",
        synthesizer="playbook", language="cpp", device="test cpu", minutes=None, target=None, origin_session=None,
        at="2023-11-14 22:13:20", at_ns=BEGIN_NS, detail="3.2x over eager")  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["speedup_low"] == pytest.approx(3.2 * 0.98)
    assert row["seconds"] == pytest.approx(len(story()) - 2), "until it was closed; the skill came later"


async def test_sessions_open_have_what_is_known_so_far(ask: Callable) -> None:
    envelopes = story(close=False)
    (row,) = await ask(envelopes[:13], "FROM sessions")
    assert (row["status"], row["reason"], row["win"], row["candidates"], row["correct"]) == ("open", None, False, 2, 1)
    assert (row["best"], row["speedup"], row["against"], row["wins"]) == ("n1", 2.0, "eager", 1)
    assert row["seconds"] == pytest.approx(12)


async def test_a_task_without_a_file_is_no_candidate(ask: Callable) -> None:
    waiting = Story("waiting")
    waiting.open()
    for number in (1, 2, 3):
        waiting.plan(f"n{number}", "", number, Intent.draft)
    waiting.propose("n1")
    (row,) = await ask(waiting.envelopes, "FROM sessions")
    assert (row["status"], row["candidates"]) == ("open", 1), "n2 and n3 wait for an author"


async def test_sessions_just_opened(ask: Callable) -> None:
    (row,) = await ask(story()[:1], "FROM sessions")
    assert (row["status"], row["candidates"], row["best"], row["speedup"]) == ("open", 0, None, None)


async def test_sessions_with_every_option(ask: Callable) -> None:
    origin = Origin(session="old", node="n9")
    options = dict(minutes=5.0, target=3.0, model="m", policy="mcts", origin=origin, version="0.1")
    (row,) = await ask(story(**options), "FROM sessions")
    names = ("minutes", "target", "model", "policy", "origin_session", "origin_node", "version")
    assert tuple(row[name] for name in names) == (5.0, 3.0, "m", "mcts", "old", "n9", "0.1")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "search"),
        ({"origin": Origin(session="old", node="n9")}, "fork"),
        ({"synthesizer": "given", "candidates": ("def kernel(): ...",)}, "evaluation"),
        ({"synthesizer": "given", "candidates": ("def kernel(): ...",), "evaluation": True}, "evaluation"),
    ],
)
async def test_sessions_of_every_kind(ask: Callable, options: dict, kind: str) -> None:
    (row,) = await ask(story(**options), "SELECT kind FROM sessions")
    assert row["kind"] == kind


async def test_nodes(ask: Callable) -> None:
    columns = "node, number, parent, intent, state, verdict, speedup, fitness, confirmed, against, backend"
    rows = await ask(story(), f"SELECT {columns} FROM nodes ORDER BY number")
    assert [tuple(row.values()) for row in rows] == [
        ("n1", 1, "", "draft", "profiled", "correct", 2.0, 2.0, False, "eager", "playbook"),
        ("n2", 2, "n1", "improve", "profiled", "correct", 3.2, 3.2, True, "eager", "playbook"),
        ("n3", 3, "n2", "improve", "compilation_failed", "compile_error", None, 0.0, False, "", "playbook"),
        ("n4", 4, "n3", "repair", "verification_failed", "wrong_numbers", None, 0.0, False, "", "playbook"),
    ]


@pytest.mark.parametrize(
    ("events", "state"), [(3, "planned"), (4, "proposed"), (5, "compiled"), (6, "verified"), (7, "profiled")]
)
async def test_a_node_goes_through_its_states(ask: Callable, events: int, state: str) -> None:
    (row,) = await ask(story()[:events], "FROM nodes")
    assert (row["state"], row["verdict"], row["seconds"]) == (state, None, None)


async def test_candidates(ask: Callable) -> None:
    rows = await ask(story(), "FROM candidates ORDER BY node")
    assert [row["node"] for row in rows] == ["n1", "n2", "n3", "n4"]
    second = rows[1]
    assert second["source"] == "# n2: größer, 'quoted' \\ \n\ndef kernel(x, w):\n    return x\n"
    assert json.loads(second["recipe"]) == {"threads": 2, "pass": "online"}
    assert (second["parents"], second["skills"], second["rationale"]) == (["n1"], [], "why n2")
    assert (second["verdict"], second["speedup"], second["state"]) == ("correct", 3.2, "profiled")
    assert second["sha256"] == candidate(second["source"]).sha256


async def test_measurements(ask: Callable) -> None:
    rows = await ask(story(), "FROM measurements WHERE node = 'n2' ORDER BY at_ns, series")
    assert [(row["series"], row["confirmation"], row["best"]) for row in rows] == [
        ("candidate", False, False),
        ("eager", False, True),
        ("candidate", True, False),
        ("eager", True, True),
    ]
    mine, eager = rows[2:]
    assert mine["samples_ns"] == [625000 + i for i in range(5)]
    assert (mine["median_ms"], mine["rounds"], mine["calls"], mine["speedup"]) == (0.625, 5, 1, None)
    assert (eager["median_ms"], eager["speedup"], eager["roofline_fraction"]) == (2.0, 3.2, None)
    assert (mine["roofline_fraction"], mine["floor_ms"], mine["roofline_limit"]) == (0.64, 0.4, "memory")
    assert json.loads(mine["counters"])["values"] == {"instructions": 5.0}


async def test_diagnoses(ask: Callable) -> None:
    rows = await ask(story(), "FROM diagnoses ORDER BY seq")
    assert [(row["node"], row["verdict"], row["confirmation"]) for row in rows] == [
        ("n1", "correct", False),
        ("n2", "correct", False),
        ("n3", "compile_error", False),
        ("n4", "wrong_numbers", False),
        ("n2", "correct", True),
    ]
    assert rows[0]["evidence"] == [{"name": "roofline_fraction", "value": "0.5", "meaning": "half way"}]
    assert rows[0]["advice"] == [{"action": "reduce_traffic", "reason": "test", "weight": 1.0}]


async def test_model_calls(ask: Callable) -> None:
    (row,) = await ask(story(), "FROM model_calls")
    expected = dict(node="n3", model="m-1", input_tokens=100, output_tokens=20, latency_ms=12.5, attempt=1, error="",
        cache_read_tokens=0, completion="def kernel(): …", stop_reason="end_turn")  # fmt: skip
    assert {name: row[name] for name in expected} == expected


async def test_lineage(ask: Callable) -> None:
    rows = await ask(story(), "SELECT depth, ancestor, speedup FROM lineage WHERE node = 'n4' ORDER BY depth")
    assert [tuple(row.values()) for row in rows] == [(0, "n4", None), (1, "n3", None), (2, "n2", 3.2), (3, "n1", 2.0)]


async def test_lineage_of_a_fork_goes_on_in_the_session_it_came_from(ask: Callable) -> None:
    fork = Story("rmsnorm-b2")
    fork.say(opened(origin=Origin(session="rmsnorm-a1", node="n2")), agent="user")
    fork.plan("f1", "n2", 1, Intent.improve)
    fork.plan("f2", "f1", 2, Intent.improve)
    rows = await ask(
        story() + fork.envelopes,
        "SELECT depth, ancestor_session, ancestor FROM lineage WHERE node = 'f2' ORDER BY depth",
    )
    assert [tuple(row.values()) for row in rows] == [
        (0, "rmsnorm-b2", "f2"),
        (1, "rmsnorm-b2", "f1"),
        (2, "rmsnorm-a1", "n2"),
        (3, "rmsnorm-a1", "n1"),
    ]


async def test_lineage_ends_though_somebody_planned_a_circle(ask: Callable) -> None:
    history = Story()
    history.plan("a", "b", 1, Intent.improve)
    history.plan("b", "a", 2, Intent.improve)
    assert await ask(history.envelopes, "SELECT max(depth) AS deepest FROM lineage") == [{"deepest": 10000}]


async def test_skills(ask: Callable) -> None:
    (row,) = await ask(story(), "FROM skills")
    assert (row["skill"], row["session"], row["speedup"], row["dtype"]) == (
        "rmsnorm-rmsnorm-a1",
        "rmsnorm-a1",
        3.2,
        "float32",
    )
    assert row["operators"] == ["aten.mean.dim", "aten.mul.Tensor"]
    assert row["sizes"] == [65536, 65536, 65536]
    assert [json.loads(recipe) for recipe in row["recipes"]] == [{"threads": 2, "pass": "online"}, {"threads": 1}]


async def test_sessions_do_not_mix(ask: Callable) -> None:
    rows = await ask(
        story("one") + story("two", close=False), "SELECT session, status, candidates FROM sessions ORDER BY 1"
    )
    assert [tuple(row.values()) for row in rows] == [("one", "closed", 4), ("two", "open", 4)]


@pytest.mark.parametrize("view", VIEWS)
async def test_every_view_is_described_and_has_a_time(tmp_path: Path, log: Log, view: str) -> None:
    table: Table = await run_sql(tmp_path, f"DESCRIBE {view}")
    types = {row[0]: row[1] for row in table.rows}
    assert (types["at_ns"], types["at"]) == ("BIGINT", "TIMESTAMP")
    assert "JSON" not in {types.get("source"), types.get("speedup"), types.get("samples_ns")}
    assert log_path(tmp_path).exists()


# What was measured in ordinary processes.


def timed_twice() -> list:
    """One node, whose confirmation was timed in ordinary processes as well."""
    history = Story()
    history.open(against="compile")
    history.plan("n1", "", 1, Intent.draft)
    history.propose("n1")
    history.compile("n1")
    history.time("n1", 1.0)
    ordinary = against_all(1.0, eager=1.5, compile=1.25)
    judged = msgspec.structs.replace(profile(1.0), ordinary=ordinary)
    history.say(CandidateProfiled(report=judged, confirmation=True), node="n1", agent="profiler")
    interval = ordinary.speedup["compile"]
    history.say(diagnosed(2.0, ordinary=interval, ordinary_against="compile", confirmation=True), node="n1")
    closed = SessionClosed(reason="budget", best="n1", win=True, speedup=interval, against="compile")
    history.say(msgspec.structs.replace(closed, judged=interval_of(2.0), judged_against="compile"))
    return history.envelopes


async def test_nodes_have_the_load_beside_which_the_judge_timed_them(ask: Callable) -> None:
    history = Story()
    history.open()
    for node, number, loads in (("n1", 1, (0.25,)), ("n2", 2, (0.0, 0.125, 0.5))):
        history.plan(node, "", number, Intent.draft)
        history.propose(node)
        first, *others = [msgspec.structs.replace(against_all(1.0, eager=1.5), background_load=load) for load in loads]
        shapes = tuple(ShapeTiming(shape=str(at), weight=1.0, timing=timing) for at, timing in enumerate(others))
        report = msgspec.structs.replace(profile(1.0), timing=msgspec.structs.replace(first, shapes=shapes))
        history.say(CandidateProfiled(report=report), node=node, agent="profiler")
    rows = await ask(history.envelopes, "SELECT node, background_load FROM nodes ORDER BY node")
    assert [tuple(row.values()) for row in rows] == [("n1", 0.25), ("n2", 0.5)]


async def test_nodes_timed_in_ordinary_processes(ask: Callable) -> None:
    (row,) = await ask(timed_twice(), "FROM nodes")
    assert (row["speedup"], row["ordinary_speedup"], row["ordinary_against"]) == (2.0, 1.25, "compile")
    assert (row["ordinary_low"], row["ordinary_high"]) == (pytest.approx(1.225), pytest.approx(1.275))
    assert row["over_eager"] == 2.0


def timed_on_accelerator(measure: str) -> list:
    """One node of an accelerator, whose confirmation was timed as a call as well."""
    history = Story()
    history.open(pool=given_pool(platform="nvidia"), measure=measure)
    history.plan("n1", "", 1, Intent.draft)
    history.propose("n1")
    history.time("n1", 1.0)
    call = against_all(1.0, eager=1.5, compile=1.25)
    report = msgspec.structs.replace(profile(1.0), ordinary=call)
    history.say(CandidateProfiled(report=report, confirmation=True), node="n1", agent="profiler")
    ratio = call.speedup["compile"]
    history.say(diagnosed(2.0, ordinary=ratio, ordinary_against="compile", confirmation=True), node="n1")
    closed = SessionClosed(
        reason="budget", best="n1", speedup=interval_of(2.0), against="compile", call=ratio, call_against="compile"
    )
    if measure == "call":
        closed = msgspec.structs.replace(closed, speedup=ratio, judged=interval_of(2.0))
    history.say(closed)
    return history.envelopes


@pytest.mark.parametrize("measure", ["device", "call"])
async def test_device_and_call_have_columns_of_their_own(measure: str, ask: Callable) -> None:
    (session,) = await ask(timed_on_accelerator(measure), "FROM sessions")
    (node,) = await ask([], "FROM nodes")
    (diagnosis,) = await ask([], "FROM diagnoses WHERE confirmation")
    assert (diagnosis["ordinary_speedup"], diagnosis["call_speedup"]) == (None, 1.25)
    for row in (session, node):
        assert (row["measure"], row["device_speedup"], row["call_speedup"]) == (measure, 2.0, 1.25)
        assert (row["device_low"], row["call_high"]) == (pytest.approx(1.96), pytest.approx(1.275))
        assert (row["ordinary_speedup"], row["over_eager"]) == (None, 2.0)
        assert (row["speedup"], row["against"], row["call_against"]) == (2.0, "compile", "compile")


async def test_on_a_processor_there_is_neither_device_nor_call(ask: Callable) -> None:
    (session,) = await ask(timed_twice(), "FROM sessions")
    (node,) = await ask([], "FROM nodes")
    for row in (session, node):
        assert (row["measure"], row["device_speedup"], row["call_speedup"]) == (None, None, None)


async def test_sessions_timed_in_ordinary_processes(ask: Callable) -> None:
    (row,) = await ask(timed_twice(), "FROM sessions")
    assert (row["speedup"], row["ordinary_speedup"], row["over_eager"]) == (2.0, 1.25, 2.0)
    assert (row["against"], row["win_against"]) == ("compile", "compile")


async def test_over_eager_is_by_the_judge_as_speedup_is(ask: Callable) -> None:
    (session,) = await ask(story(), "FROM sessions")
    assert (session["ordinary_speedup"], session["over_eager"], session["win_against"]) == (None, 3.2, "best")
    rows = await ask([], "SELECT node, ordinary_speedup, over_eager FROM nodes ORDER BY node")
    assert [tuple(row.values()) for row in rows] == [
        ("n1", None, 2.0), ("n2", None, 3.2), ("n3", None, None), ("n4", None, None)
    ]  # fmt: skip


async def test_measurements_in_ordinary_processes_have_their_samples(ask: Callable) -> None:
    rows = await ask(timed_twice(), "FROM measurements WHERE ordinary ORDER BY series")
    assert [(row["series"], row["median_ms"], row["samples_ns"]) for row in rows] == [
        ("candidate", 1.0, [1_000_000]),
        ("compile", 1.25, [1_250_000]),
        ("eager", 1.5, [1_500_000]),
    ]
    assert [row["speedup"] for row in rows] == [None, 1.25, 1.5]
