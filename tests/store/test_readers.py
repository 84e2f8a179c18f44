"""What the command line asks, as typed records."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from story import story, wire

from kernelswarm.schemas import (
    BaselinesMeasured,
    CandidateProfiled,
    InputError,
    ShapeBaselines,
    ShapeTiming,
    encode,
)
from kernelswarm.store import Log, node, sessions, show, skills


@pytest.fixture
def home(tmp_path: Path, log: Log) -> Path:
    envelopes = story("one") + story("two", close=False)
    log.append(wire(envelopes))
    return tmp_path


async def test_sessions_newest_first(home: Path) -> None:
    rows = await sessions(home)
    assert sorted((row.session, row.status, row.speedup) for row in rows) == [
        ("one", "closed", 3.2),
        ("two", "open", 3.2),
    ]
    assert len(await sessions(home, limit=1)) == 1


async def test_a_home_without_a_log_has_no_sessions_and_no_skills(tmp_path: Path) -> None:
    assert await sessions(tmp_path) == []
    assert await skills(tmp_path) == []


async def test_show(home: Path) -> None:
    report = await show(home, "one")
    assert (report.session.best, report.session.problem, report.session.wins) == ("n2", "rmsnorm", 2)
    assert [row.node for row in report.nodes] == ["n1", "n2", "n3", "n4"]
    assert report.best_path == ("n1", "n2")
    assert report.baselines_ms == {"eager": 2.0}


async def test_show_before_anything_was_timed(tmp_path: Path, log: Log) -> None:
    log.append(wire(story()[:2]))
    report = await show(tmp_path, "rmsnorm-a1")
    assert (report.nodes, report.best_path, report.session.best) == ((), (), None)
    assert report.baselines_ms == {"eager": 3.0, "compile": 2.0}


async def test_show_what_is_not_there(home: Path) -> None:
    with pytest.raises(InputError, match=r"no session 'nope' in .*log.duckdb: `kernelswarm sessions` lists them"):
        await show(home, "nope")
    with pytest.raises(InputError, match=r"no node 'n9' in session 'one': `kernelswarm show one` lists them"):
        await node(home, "one", "n9")


async def test_a_node_that_won(home: Path) -> None:
    report = await node(home, "one", "n2")
    assert report.source.startswith("# n2: größer")
    assert (report.rationale, report.recipe) == ("why n2", {"threads": 2, "pass": "online"})
    assert [(row.series, row.median_ms) for row in report.measurements] == [
        ("candidate", 0.5),
        ("eager", 2.0),
        ("candidate", 0.625),
        ("eager", 2.0),
    ]
    assert [row.fitness for row in report.diagnoses] == [4.0, 3.2]
    assert report.diagnoses[0].evidence[0].meaning == "half way"
    assert report.evidence == {}


async def test_nodes_that_failed_say_why(home: Path) -> None:
    assert (await node(home, "one", "n3")).evidence["diagnostics"][0]["message"] == "expected ';'"
    assert (await node(home, "one", "n4")).evidence["evidence"]["message"] == "wrong at [0, 1]"


async def test_a_node_that_was_only_planned(tmp_path: Path, log: Log) -> None:
    log.append(wire(story()[:3]))
    report = await node(tmp_path, "rmsnorm-a1", "n1")
    assert (report.source, report.rationale, report.recipe, report.measurements) == ("", "", {}, ())


async def test_skills_by_pool(home: Path) -> None:
    assert [row.title for row in await skills(home)] == ["Row reductions in one pass"]
    assert len(await skills(home, pool="cpu")) == 1
    assert await skills(home, pool="h200") == []


async def test_several_timed_shapes_are_a_mean_and_a_row_for_each(tmp_path: Path, log: Log) -> None:
    envelopes = story("one")
    place = next(place for place, envelope in enumerate(envelopes) if envelope.tag == "candidate.profiled.v1")
    profiled = envelopes[place].event()
    assert isinstance(profiled, CandidateProfiled) and profiled.report.timing is not None
    at_shape, node_name = profiled.report.timing, envelopes[place].node
    shapes = tuple(ShapeTiming(shape=name, weight=1, timing=at_shape) for name in ("main", "decode"))
    timing = replace(at_shape, series=(), shapes=shapes)
    event = replace(profiled, report=replace(profiled.report, timing=timing))
    envelopes[place] = replace(envelopes[place], body=msgspec.Raw(encode(event)))
    log.append(wire(envelopes))

    rows = [row for row in (await node(tmp_path, "one", node_name)).measurements if not row.confirmation]

    samples = {series.name: series.samples_ns for series in at_shape.series}
    assert {(row.shape, row.series, row.samples_ns) for row in rows} == {
        *((None, name, ()) for name in samples),
        *((shape, name, samples[name]) for shape in ("main", "decode") for name in samples),
    }
    assert {row.median_ms for row in rows if row.series == "candidate"} == {at_shape.median_ms["candidate"]}


@pytest.mark.parametrize("names", [(), ("main", "decode")])
async def test_a_session_says_of_how_many_shapes_its_times_are_the_mean(
    tmp_path: Path, log: Log, names: tuple[str, ...]
) -> None:
    envelopes = story("one")
    place = next(place for place, envelope in enumerate(envelopes) if envelope.tag == "baselines.measured.v1")
    measured = envelopes[place].event()
    assert isinstance(measured, BaselinesMeasured)
    report = measured.report
    shapes = tuple(ShapeBaselines(shape=name, weight=1.0, report=report) for name in names)
    event = replace(measured, report=replace(report, shapes=shapes))
    envelopes[place] = replace(envelopes[place], body=msgspec.Raw(encode(event)))
    log.append(wire(envelopes))
    assert (await show(tmp_path, "one")).timed_shapes == max(1, len(names))
