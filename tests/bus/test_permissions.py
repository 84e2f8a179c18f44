"""deploy/nats-permissions.conf on a real server: what a role needs it may, what it must not is refused and said."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import brief
import nats
import pytest
from servers import nats_server
from waiting import LIMIT_S, LONG_S, eventually, within

import given
import kernelswarm
from kernelswarm.bus import Bus
from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import BusError, Event, NodePlanned, ProfilingFailed, SessionClosed, event_tag
from kernelswarm.sessions.outside.client import OutsideAuthor
from kernelswarm.sessions.search import searching
from kernelswarm.sessions.search_options import SearchOptions
from kernelswarm.sessions.swarm import serving
from kernelswarm.store import recording, run_sql

CONF = Path(kernelswarm.__file__).parent / "deploy" / "nats-permissions.conf"
ROLES = ("admin", "runner", "thinker", "submitter", "recorder")
URL = Callable[[str], str]


def kinds(of: type[Event] = Event) -> list[type[Event]]:
    return [kind for subclass in of.__subclasses__() for kind in (subclass, *kinds(subclass))]


@pytest.fixture
async def as_role(tmp_path: Path) -> AsyncIterator[URL]:
    """URLs of a server with these permissions, by role."""
    folder = tmp_path / "server"
    folder.mkdir()
    shutil.copy(CONF, folder / "nats-permissions.conf")
    passwords = {f"KERNELSWARM_{role.upper()}_PASSWORD": f"p-{role}" for role in ROLES}
    config = "include ./nats-permissions.conf\n"
    async with nats_server(folder, config, environment={**os.environ, **passwords}) as port:

        def url(role: str) -> str:
            return f"nats://{role}:p-{role}@127.0.0.1:{port}"

        async with await Bus.connect(url("recorder"), name="makes the stream"):
            yield url


def envelope(body: Event):
    return given.envelope_of(body, session="s1", cause=event_tag(type(body)))


def test_every_event_may_be_said_by_somebody():
    text = CONF.read_text()
    assert [tag for kind in kinds() if (tag := event_tag(kind).replace(".", "-")) and f'.{tag}"' not in text] == []


async def test_a_host_that_runs_candidates_decides_nothing(as_role: URL):
    plan = NodePlanned(parent="", intent="draft", memory="clean_slate")
    forbidden = [given.opened(), plan, given.diagnosed(), SessionClosed(reason="budget")]
    async with await Bus.connect(as_role("runner"), name="runner") as runner:
        for body in forbidden:
            with pytest.raises(BusError, match=r"does not let this user say ks\.v1\.s1\.cpu\."):
                await within(runner.publish(envelope(body)))
        assert await runner.history(None) == []


async def test_of_many_events_those_that_the_role_may_say_are_stored(as_role: URL):
    allowed = envelope(ProfilingFailed(report=given.profile()))
    async with await Bus.connect(as_role("runner"), name="runner") as runner:
        with pytest.raises(BusError, match=r"does not let this user say ks\.v1\.s1\.cpu\."):
            await within(runner.publish_many([envelope(given.opened()), allowed]))
        assert [stored for _, stored in await runner.history(None)] == [allowed]


async def test_a_host_that_runs_candidates_answers_no_query(as_role: URL):
    async def answer(_: bytes) -> bytes:
        return b"lies"

    async with await Bus.connect(as_role("runner"), name="runner") as runner:
        with pytest.raises(BusError, match="does not let this user answer 'sql'"):
            await runner.serve("sql", answer)
    async with await Bus.connect(as_role("submitter"), name="submitter") as submitter:
        with pytest.raises(BusError, match="nobody serves 'sql'"):
            await submitter.request("sql", b"", LIMIT_S)


@pytest.mark.parametrize("role", ["runner", "thinker", "submitter"])
async def test_nobody_but_the_recorder_changes_the_stream(as_role: URL, role: str):
    async with await Bus.connect(as_role("submitter"), name="submitter") as submitter:
        await submitter.publish(envelope(given.opened()))
    refusals: asyncio.Queue[Exception] = asyncio.Queue()
    client = await nats.connect(as_role(role), inbox_prefix=f"_INBOX_{role}", error_cb=refusals.put)
    js = client.jetstream()
    for subject, attempt in (
        ("stream.purge.events", js.purge_stream("EVENTS")),
        ("stream.delete.events", js.delete_stream("EVENTS")),
        ("stream.msg.delete.events", js.delete_msg("EVENTS", 1)),
        ("stream.update.events", js.update_stream(name="EVENTS", subjects=["ks.v1.>"], max_age=1)),
        ("consumer.delete.events.cpu_planner", js.delete_consumer("EVENTS", "cpu_planner")),
    ):
        request = asyncio.ensure_future(attempt)
        # The client only waits for an answer that never comes; the server says at once that it will not.
        assert f'permissions violation for publish to "$js.api.{subject}"' in str(await within(refusals.get()))
        request.cancel()
        await asyncio.wait([request])
    await client.close()
    async with await Bus.connect(as_role("recorder"), name="recorder") as recorder:
        assert len(await recorder.history(None)) == 1


async def test_a_runner_acknowledges_only_what_it_was_given(as_role: URL):
    opened, candidate = envelope(given.opened()), envelope(given.candidate())
    async with AsyncExitStack() as stack:
        buses = {role: await stack.enter_async_context(await Bus.connect(as_role(role), name=role)) for role in ROLES}
        await buses["submitter"].publish(opened)
        await buses["thinker"].publish(candidate)
        planner = await stack.enter_async_context(
            buses["thinker"].consume_round_robin("cpu", "planner", [type(opened.event())])
        )
        held = await within(anext(planner))
        forged = held._messages[0].reply
        await buses["runner"]._link.nc.publish(forged, b"+ACK")
        await buses["runner"]._link.nc.flush()
        compiler = await stack.enter_async_context(
            buses["runner"].consume_round_robin("cpu", "compiler", [type(candidate.event())])
        )
        await (await within(anext(compiler))).ack()
        js = buses["admin"]._link.js

        async def unsettled() -> list[int | None]:
            names = ("cpu_compiler_s1", "cpu_compiler", "cpu_planner_s1")
            return [(await js.consumer_info("EVENTS", name)).num_ack_pending for name in names]

        assert await eventually(unsettled, [0, 0, 1]) == [0, 0, 1]


PLAIN = "import torch\ndef kernel(x, w):\n    return torch.nn.functional.rms_norm(x, w.shape, w, 1e-6)\n"


async def test_a_whole_search_goes_through_connections_of_its_roles(as_role: URL, tmp_path: Path):
    home = tmp_path / "home"
    (home / "pools").mkdir(parents=True)
    (home / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    (home / "small.py").write_text(given.SOURCE)
    pool = find_pool("bare", home)
    hardware = detect(pool, home)
    thinking = dict.fromkeys(("planner", "synthesizer", "dispatcher", "analyst", "distiller"), 1)
    running = dict.fromkeys(("compiler", "verifier", "profiler", "checker"), 1)
    async with AsyncExitStack() as stack, asyncio.timeout(LONG_S):
        stack.enter_context(brief.measurements())
        recorder = await stack.enter_async_context(await Bus.connect(as_role("recorder"), name="recorder"))
        recording_here = await stack.enter_async_context(recording(tmp_path / "log", recorder))
        for role, workers in (("thinker", thinking), ("runner", running)):
            bus = await stack.enter_async_context(await Bus.connect(as_role(role), name=role))
            await stack.enter_async_context(serving(bus, pool, hardware, home, workers))
        await recording_here.started.wait()
        options = SearchOptions(budget=1, synthesizer="outside")
        search = await stack.enter_async_context(
            searching(load_problem(home / "small.py"), "bare", options, home=home, nats=as_role("submitter"), roles={})
        )
        people = await stack.enter_async_context(await Bus.connect(as_role("submitter"), name="an outside author"))
        author = OutsideAuthor(people, home, "alice")
        lease = (await author.claim(wait_s=LONG_S)).lease
        assert lease and (await author.check(lease.lease, PLAIN)).correct
        await author.search_knowledge(search.session + "/n001", "page faults")
        assert (await author.submit(lease.lease, PLAIN)).accepted
        async for _ in search.events():
            pass
        assert search.graph.closed is not None and search.graph.closed.candidates == 1
        async with await Bus.connect(as_role("submitter"), name="asks who is there") as asking:

            async def there() -> set[str]:
                return {worker.role for worker in await asking.workers()}

            assert await eventually(there, {*thinking, *running}) == {*thinking, *running}
        await recording_here.recorded(search.seen)
        table = await run_sql(tmp_path / "log", "SELECT count(*) FROM events")
        assert table.rows[0][0] >= search.seen
