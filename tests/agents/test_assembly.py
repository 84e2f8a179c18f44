"""The machine code of a node: from the cache, from the bus, by the command line; or one sentence why there is none."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

import given
from kernelswarm.agents.assembly import assembly_of
from kernelswarm.bus import Bus, embedded
from kernelswarm.cli.main import run
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.hardware.languages import cpp
from kernelswarm.schemas import (
    CandidateCompiled,
    CompileReport,
    Event,
    InputError,
    Intent,
    MemoryOperator,
    NodePlanned,
    encode,
)
from kernelswarm.store import Log, log_path

SOURCE = """
CPP_SOURCE = r'''
extern "C" void twice(float* x, long n) { for (long i = 0; i < n; i++) x[i] *= 2.0f; }
'''
CPP_FLAGS = []
def kernel(x): ...
"""


@pytest.fixture
def compiled(tmp_path: Path) -> CompileReport:
    cache = tmp_path / "home" / "artifacts"
    report, _ = asyncio.run(cpp.compile(SOURCE, pool=given.pool(), hardware=given.hardware(), cache=cache))
    assert report.ok, report.log
    return report


def events(report: CompileReport) -> list[Event]:
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    return [given.opened(), plan, given.candidate(SOURCE), CandidateCompiled(report=report)]


def graph(*told: Event) -> SearchGraph:
    graph = SearchGraph("s-test1")
    for number, event in enumerate(told):
        graph.apply(given.envelope_of(event, node="n001" if number else "", cause=str(number)), event)
    return graph


async def test_it_is_read_from_the_cache_and_else_from_the_bus(tmp_path: Path, compiled: CompileReport) -> None:
    session = graph(*events(compiled))
    shown = await assembly_of(session, "n001", tmp_path / "home")
    assert "# innermost loop of twice" in shown
    (artifact,) = compiled.artifacts
    async with embedded(tmp_path / "bus") as url, await Bus.connect(url, name="test") as bus:
        with pytest.raises(InputError, match=r"neither in .* nor on the event bus"):
            await assembly_of(session, "n001", tmp_path / "elsewhere", bus)
        data = (tmp_path / "home" / "artifacts" / artifact.name).read_bytes()
        await bus.put_artifact(data, name=artifact.name, media_type=artifact.media_type)
        assert await assembly_of(session, "n001", tmp_path / "elsewhere", bus) == shown


async def test_an_artifact_that_is_another_one_by_now_is_not_shown(tmp_path: Path, compiled: CompileReport) -> None:
    (artifact,) = compiled.artifacts
    (tmp_path / "home" / "artifacts" / artifact.name).write_bytes(b"other")
    with pytest.raises(InputError, match="`kernelswarm compile` makes it again"):
        await assembly_of(graph(*events(compiled)), "n001", tmp_path / "home")


async def test_what_has_no_machine_code_says_why(tmp_path: Path, compiled: CompileReport) -> None:
    told = events(compiled)
    with pytest.raises(InputError, match="has no node 'n009'"):
        await assembly_of(graph(*told), "n009", tmp_path)
    with pytest.raises(InputError, match="was not compiled"):
        await assembly_of(graph(*told[:3]), "n001", tmp_path)
    with pytest.raises(InputError, match="nothing of its file is compiled ahead"):
        await assembly_of(graph(*events(replace(compiled, artifacts=()))), "n001", tmp_path)


def test_the_command_line_prints_it(
    tmp_path: Path, compiled: CompileReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("KERNELSWARM_HOME", str(home))
    with Log.open(log_path(home)) as log:
        envelopes = [
            given.envelope_of(event, node="n001" if number else "", cause=str(number))
            for number, event in enumerate(events(compiled))
        ]
        log.append([(number, encode(envelope)) for number, envelope in enumerate(envelopes, 1)])
    assert run(["show", "s-test1", "--node", "n001", "--assembly"]) == 0
    assert "# innermost loop of twice" in capsys.readouterr().out
    assert run(["show", "s-test1", "--assembly"]) == 2
    assert "is still open: name a node with --node" in capsys.readouterr().err
    assert run(["show", "s-test1", "--node", "n002", "--assembly"]) == 2
    assert "has no node 'n002'" in capsys.readouterr().err
