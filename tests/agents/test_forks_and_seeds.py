"""Forks and seeds on the whole ring: a real server, real compilers; only torch.compile is left out, for its 20 s."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from search_context import SearchContextOf, shared
from waiting import eventually

import given
from kernelswarm.agents.planner.inheriting import begun
from kernelswarm.graph.session_graph import SearchGraph
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import InputError, Intent, NodeDiagnosed, Problem, Verdict, encode
from kernelswarm.sessions.adaptation import Target
from kernelswarm.sessions.fork import fork_point
from kernelswarm.sessions.lineage import lineage
from kernelswarm.sessions.recorded_session import RecordedSession, read_session
from kernelswarm.sessions.replay import Replay
from kernelswarm.sessions.search import Search, searching, session_on
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.sessions.seed import seeding
from kernelswarm.store import Log, log_path

SMALL = given.SOURCE.replace("return x *", "for _ in range(16): x = x * 0.9 + w\n    return x *")
"""Many small operations, so that one kernel for all of them wins on a busy machine, too."""
WIDER = SMALL.replace("cols=256", "cols=512").replace("1e-6", "1e-5")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with pools that are timed against eager alone; the second counts as other hardware."""
    home = tmp_path_factory.mktemp("home")
    (home / "pools").mkdir()
    for name, threads in (("bare", 1), ("double", 2)):
        (home / "pools" / f"{name}.toml").write_text(
            f'name = "{name}"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\nthreads = {threads}\n'
        )
    (home / "small.py").write_text(SMALL)
    (home / "wider.py").write_text(WIDER)
    return home


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def context(home: Path) -> AsyncIterator[SearchContextOf]:
    async with shared(home, "bare") as context:
        yield context


async def ended(running: Search) -> SearchGraph:
    async for _ in running.events():
        pass
    return running.graph


async def search(context: SearchContextOf, problem: Problem, options: SearchOptions) -> SearchGraph:
    async with session_on(await context(problem), options) as running:
        return await ended(running)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def parent(home: Path, context: SearchContextOf) -> SearchGraph:
    return await search(context, load_problem(home / "small.py"), SearchOptions(budget=4, seed=3))


async def forked(
    context: SearchContextOf, home: Path, session: str, node: str, at: str = "", budget: int = 3
) -> SearchGraph:
    point = fork_point(await read_session(home, session), node, at)
    on = await context(point.opened.problem)
    async with session_on(on, point.options(budget=budget), origin=point.origin) as running:
        return await ended(running)


async def forked_by_itself(home: Path, session: str, node: str, budget: int, pool: str = "bare") -> SearchGraph:
    """With a device and a connection of its own."""
    point = fork_point(await read_session(home, session), node)
    options = point.options(budget=budget)
    async with searching(point.opened.problem, pool, options, home=home, origin=point.origin) as running:
        return await ended(running)


def replayed(session: RecordedSession) -> bool:
    """Whether a fresh planner, analyst and distiller say what was recorded; a divergence raises."""
    replay = Replay(session.id, session.before)
    for seq, envelope in session.events:
        replay.feed(seq, envelope, envelope.event())
    replay.finish()
    return True


@pytest.mark.asyncio(loop_scope="module")
async def test_a_fork_goes_on_from_its_node_and_copies_nothing(
    context: SearchContextOf, home: Path, parent: SearchGraph
) -> None:
    child = await forked(context, home, parent.session, "n002")
    first, *others = child.own()
    assert child.opened is not None and child.opened.origin is not None
    assert (child.opened.origin.session, child.opened.origin.node) == (parent.session, "n002")
    assert (first.plan and first.plan.intent, first.parent) == (Intent.remeasure, "n002")
    was = parent.nodes["n002"]
    assert first.candidate and was.candidate and first.candidate.sha256 == was.candidate.sha256
    assert first.profile_report != was.profile_report, "it is measured, not believed"
    assert others and all(node.candidate for node in others)
    assert "n002" in child.inheritance.nodes and not {node.name for node in child.own()} & set(child.inheritance.nodes)
    assert (
        child.closed is not None and child.closed.candidates == 3 and child.closed.best in {n.name for n in child.own()}
    )
    recorded = await read_session(home, child.session)
    assert {envelope.session for _, envelope in recorded.events} == {child.session}
    assert {envelope.session for envelope, _ in recorded.before} == {parent.session}


@pytest.mark.asyncio(loop_scope="module")
async def test_a_fork_of_a_fork_as_of_an_event_reads_through_to_the_first(
    context: SearchContextOf, home: Path, parent: SearchGraph
) -> None:
    child = await forked(context, home, parent.session, "n001", budget=2)
    recorded = await read_session(home, child.session)
    diagnoses = [envelope for _, envelope in recorded.events if isinstance(envelope.event(), NodeDiagnosed)]
    grandchild = await forked(context, home, child.session, "", diagnoses[0].id[:12], budget=2)
    assert {"n001", diagnoses[0].node} <= set(grandchild.inheritance.nodes), "the parent's and the child's"
    assert child.own()[-1].name not in grandchild.inheritance.nodes, "it was diagnosed later"
    assert grandchild.own()[0].plan is not None and grandchild.own()[0].plan.intent is Intent.remeasure
    assert replayed(await read_session(home, grandchild.session))
    steps = await lineage(grandchild.session, grandchild.own()[0].name, lambda name: read_session(home, name))
    assert steps[0].session == parent.session and steps[0].operation == "draft"
    assert all(step.diagnosis for step in steps)
    assert "fork" in [step.through for step in steps]


@pytest.mark.thorough
@pytest.mark.asyncio(loop_scope="module")
async def test_an_imported_parent_is_read_from_the_log_and_nothing_measured_elsewhere_counts(
    home: Path, parent: SearchGraph, tmp_path: Path
) -> None:
    shutil.copytree(home / "pools", tmp_path / "pools")
    source = Log.opened_here(log_path(home))
    assert source is not None
    with Log.open(log_path(tmp_path)) as log:
        imported = source.read(session=parent.session)
        log.append([(seq, encode(envelope)) for seq, envelope in imported], stream="imported")
    child = await forked_by_itself(tmp_path, parent.session, "n001", budget=1, pool="double")
    inherited = child.inheritance.nodes["n001"]
    assert inherited.elsewhere and inherited.fitness == 0.0 and inherited.diagnosis is None
    (measured,) = child.own()
    assert measured.plan is not None and measured.plan.intent is Intent.remeasure
    assert measured.verify_report is not None and measured.verify_report.verdict is Verdict.correct
    assert not list(begun(child).nodes), "a planner must not rank by numbers of another machine"


@pytest.mark.thorough
@pytest.mark.asyncio(loop_scope="module")
async def test_a_running_parent_can_be_forked(context: SearchContextOf, home: Path) -> None:
    async with session_on(await context(load_problem(home / "small.py")), SearchOptions(budget=60)) as running:
        child: SearchGraph | None = None
        async for _, event in running.events():
            if child is None and isinstance(event, NodeDiagnosed):
                node = next(node.name for node in running.graph.own() if node.diagnosis)
                child = await _when_recorded(home, running.session, node)
                await running.stop("interrupted")
    assert child is not None and child.closed is not None and child.closed.candidates == 2


async def _when_recorded(home: Path, session: str, node: str) -> SearchGraph:
    async def recorded() -> bool:
        try:
            return bool(fork_point(await read_session(home, session), node))
        except InputError:
            return False  # the recorder is a moment behind the stream

    assert await eventually(recorded, True)
    return await forked_by_itself(home, session, node, budget=2)


@pytest.mark.asyncio(loop_scope="module")
async def test_seeds_of_the_same_problem_are_measured_first_as_they_are(
    context: SearchContextOf, home: Path, parent: SearchGraph
) -> None:
    options = SearchOptions(budget=6, seed=9, seed_from=(parent.session,), inject=1.0)
    graph = await search(context, load_problem(home / "small.py"), options)
    assert graph.opened is not None
    kernels = graph.opened.seed_kernels
    assert 1 <= len(kernels) <= 2 and len({kernel.sha256 for kernel in kernels}) == len(kernels)
    assert graph.opened.seeds == (parent.session,) and graph.opened.policy_options["inject"] == 1.0
    first = graph.own()[: len(kernels)]
    assert [(n.plan.intent, n.plan.seed) for n in first if n.plan] == [
        (Intent.remeasure, i) for i in range(1, len(kernels) + 1)
    ]
    assert all(node.candidate and not kernel.adapted and node.candidate.source == kernel.source
               for node, kernel in zip(first, kernels, strict=True))  # fmt: skip
    injected = [n for n in graph.own() if n.plan and (n.plan.second or n.plan.parent) in {s.name for s in first}]
    assert injected, "every expansion takes a seed"
    assert replayed(await read_session(home, graph.session))
    steps = await lineage(graph.session, first[0].name, lambda name: read_session(home, name))
    assert steps[-1].through == "seed" and steps[-2].session == parent.session


@pytest.mark.thorough
@pytest.mark.asyncio(loop_scope="module")
async def test_a_like_problem_is_seeded_with_settings_written_anew(
    context: SearchContextOf, home: Path, parent: SearchGraph
) -> None:
    graph = await search(context, load_problem(home / "wider.py"), SearchOptions(budget=3, seed_from=("auto",)))
    assert graph.opened is not None
    (kernel,) = graph.opened.seed_kernels
    assert kernel.adapted and 0.6 <= kernel.similarity < 1.0
    verified = graph.own()[0].verify_report
    assert verified is not None and verified.verdict is Verdict.correct


@pytest.mark.asyncio(loop_scope="module")
async def test_a_session_that_is_not_there_seeds_nothing(home: Path, parent: SearchGraph) -> None:
    target = Target(given.problem(), given.facts(), given.pool(), given.hardware())
    nearly = parent.session[:-1] + ("x" if parent.session[-1] != "x" else "y")
    with pytest.raises(InputError, match=f"no session '{nearly}'.*did you mean '{parent.session}'"):
        await seeding(home, target, (nearly,), 12)
