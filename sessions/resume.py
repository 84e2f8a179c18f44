"""An open session goes on where it was: after a kill, after a day, after its server's data is lost.

The log is the truth. What the stream has lost is published again with its own ids; what was answered is not answered
again; the planner's, analyst's and distiller's part of the log must be what fresh ones say, or the session that comes
out would not be its own replay.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from ..agents.ancestors import reader
from ..agents.registry import ALL_ROLES, ROLES, widened
from ..agents.synthesizer.authors import authors_of, check_authors
from ..bus import Bus, running
from ..bus.at_rest import may_hold
from ..graph.inheritance import LoggedEvent, inherited
from ..graph.session_graph import SearchGraph
from ..graph.tasks import INTERRUPTED
from ..hardware.device import Device
from ..hardware.platforms import detect
from ..hardware.pools.pool_files import find_pool
from ..schemas import (
    DEADLINE,
    REFERENCE_DIED,
    BusError,
    CheckRequested,
    Envelope,
    Event,
    HardwareFacts,
    KernelswarmError,
    KnowledgeRetrieved,
    ModelCalled,
    Pool,
    PoolError,
    ReplayDivergence,
    RoleDecided,
    SessionClosed,
    SessionOpened,
    StoreError,
    ToolCalled,
    event_tag,
)
from ..store import LogBusyError, UnknownSession, log_path, read_recorded, wait_recorded
from .connection import Joined, joined_bus
from .recorded_session import RecordedSession, read_session
from .replay import Replay
from .search import Search
from .swarm import serving
from .timer import idle_limit, timed

LONGEST_STEP_S = 120.0
"""Between two events of a session that is being served; a longer pause does not count into its minutes."""

_ASKED: tuple[type[Event], ...] = (ModelCalled, ToolCalled, KnowledgeRetrieved, CheckRequested, RoleDecided)
_ON_THE_WAY = frozenset(event_tag(kind) for kind in _ASKED)
"""What an author, or a role that asks a model, does on its way to an answer."""


CLOSING_ROLES: Mapping[str, int] = {"planner": 1, "distiller": 1}
"""What a session needs to be closed with what it has, and to teach that. They run nothing and ask for no candidate."""


class AlreadyClosed(KernelswarmError):
    """The session has come to its end: there is nothing to resume."""


@dataclass(frozen=True)
class Standing:
    """Where a session stands."""

    opened: SessionOpened
    graph: SearchGraph
    answered: Mapping[str, frozenset[str]]
    """Ids of events that have their answer, by role."""
    minutes_left: float | None
    """None without a limit, or if the timer has nothing more to say."""


def standing(session: str, events: Sequence[Envelope], before: Sequence[LoggedEvent] = ()) -> Standing:
    """Replay what there is and say where it stands.

    Raises:
        AlreadyClosed: nothing is left to say.
        KernelswarmError: this version decides otherwise than what is recorded.
    """
    running = Replay(session, before)
    try:
        for seq, envelope in enumerate(events, 1):
            running.feed(seq, envelope, envelope.event())
        running.finish()
    except ReplayDivergence as error:
        raise KernelswarmError(
            f"session {session} cannot be resumed, this version would go on otherwise ({error}): fork it instead"
        ) from error
    graph, open_ends = running.graph, {(output.role, output.cause) for output in running.unsaid} | running.asking
    if graph.opened is None:
        raise KernelswarmError(f"session {session} has no opening event: it cannot be resumed")
    if graph.closed is not None and ("distiller" not in {role for role, _ in open_ends}):
        raise AlreadyClosed(
            f"session {session} is closed: {graph.closed.detail or graph.closed.reason}. {_goes_on(session, graph)}"
        )
    answered: dict[str, set[str]] = defaultdict(set)
    for envelope in events:
        # Of several decisions on one event some may be missing.
        if envelope.tag not in _ON_THE_WAY and (envelope.agent, envelope.cause) not in open_ends:
            answered[envelope.agent].add(envelope.cause)
    return Standing(
        graph.opened,
        graph,
        {role: frozenset(causes) for role, causes in answered.items()},
        _minutes_left(graph.opened, events) if graph.stop is None or _confirms(graph) else None,
    )


@asynccontextmanager
async def resuming(
    session: str,
    *,
    home: Path,
    nats: str = "",
    roles: Mapping[str, int] = ALL_ROLES,
    on: tuple[Joined, Device] | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Search]:
    """Serve an open session on to its close. What happened so far is among the search's events.

    With ``roles`` of which none needs a device (:data:`CLOSING_ROLES`) neither its pool nor its device need be here.
    ``on`` are the bus and the device where several sessions share them; by default it has its own.

    Raises:
        UnknownSession: there is no such session.
        InputError: its pool is not served here, or its synthesizer cannot work.
        AlreadyClosed: it is closed.
        LogCorrupted: the log is not what was written; the first bad event is named.
        KernelswarmError: it cannot be resumed; a fork of it can go on.
        BusError: the bus cannot be reached.
    """
    if on is None and not nats and running(home) is None:
        await _refuse_without_a_bus(session, home, roles)
    async with AsyncExitStack() as stack:
        joined, device = on or (None, None)
        if joined is None:
            on_notice("starting the bus")
            joined = await stack.enter_async_context(joined_bus(home, nats, on_notice))
        bus, recorded_here = joined
        events, missing = await _everything(session, home, bus, recorded_here)
        opened = _opening(events)
        before = [] if opened is None else await inherited(opened, reader(bus, home))
        now = standing(session, events, before)
        runs_candidates, hardware = _run_candidates(roles), now.opened.hardware
        with _or_close(session):
            pool = _served_here(now.opened, home, roles)
            if runs_candidates or not roles:
                hardware = await asyncio.to_thread(detect, pool, home)
                _say_if_moved(now.opened, hardware, on_notice)
        if missing:
            on_notice(f"publishing {len(missing)} events of the log again: the bus has lost them")
            await bus.publish_many(missing)
        workers, swarm = await stack.enter_async_context(AsyncExitStack()), None
        if runs_candidates:
            if device is None:
                device = await stack.enter_async_context(Device(pool, hardware, home, background=True))
            else:
                forget = partial(device.forget, now.opened.problem)
                stack.push_async_callback(lambda: asyncio.shield(forget()))
                device.memory.notify(now.opened.problem, on_notice)
                # Before its minutes go on: beside large neighbours it would wait for memory until they are over.
                await stack.enter_async_context(device.memory.using(now.opened.problem, now.opened.facts))
            await _restore_artifacts(now.graph, device, on_notice)
        if roles:
            swarm = await workers.enter_async_context(
                serving(
                    *(bus, pool, hardware, home, widened(roles, now.opened.synthesizer, now.opened.roles)),
                    device=device,
                    session=None if nats else session,
                    answered=now.answered,
                )
            )
        search = Search(session, pool.name, bus, swarm, now.graph.opened_id, 0, before)
        search.leave = workers.aclose if swarm is not None else None
        if swarm is not None and device is not None:
            search.notify_of_memory = partial(device.memory.notify, now.opened.problem)
            search.notify_of_others = device.notify_of_others
        if now.minutes_left is not None or now.graph.stop is not None:
            is_asked = now.graph.stop is not None
            stack.enter_context(timed(search, now.minutes_left, now.opened.reserve, is_asked=is_asked))
        if now.opened.idle:
            stack.enter_context(idle_limit(search, now.opened.idle * 60))
        yield search
        await workers.aclose()
        if recorded_here:
            await search.wait_recorded(home)


def _goes_on(session: str, graph: SearchGraph) -> str:
    """The way out of a closed session."""
    diagnosed = [node.name for node in graph.own() if node.diagnosis is not None]
    if not diagnosed:
        return (
            "None of its nodes got so far that a fork could go on from it: begin a new one with `kernelswarm optimize`"
        )
    best = graph.closed.best if graph.closed is not None else ""
    fork = f"A new session goes on from any of its nodes: `kernelswarm fork {session} --node {best or diagnosed[0]}`"
    return f"`kernelswarm show {session} --file` prints its finished kernel. {fork}" if best else fork


async def _refuse_without_a_bus(session: str, home: Path, roles: Mapping[str, int]) -> None:
    """Say at once what is certain before a server runs: the session is closed, there is none, or it cannot go on here.

    Raises:
        UnknownSession: neither the log nor what lies on the stream knows it.
        InputError: its pool is not served here, or its synthesizer cannot work.
        AlreadyClosed: the log has its close, and nothing is left to say.
        StoreError: the log cannot be used; LogCorrupted: what it has of the session is not what was written.
        KernelswarmError: it is closed, and this version would have decided otherwise.
    """
    recorded: RecordedSession | None = None
    try:
        if log_path(home).exists():
            recorded = await read_session(home, session, verify=True)
    except UnknownSession:
        pass
    except LogBusyError:
        return  # with a bus its holder can be asked
    except StoreError:
        raise
    except KernelswarmError:
        return  # a parent that is not in it: with a bus there are other ways, and it says why
    if recorded is None:
        # A recorder that was killed may not have written down what the stream holds.
        if not may_hold(home, session):
            raise UnknownSession(f"There is no session {session!r} in {log_path(home)}.")
        return
    events = [envelope for _, envelope in recorded.events]
    if any(isinstance(envelope.event(), SessionClosed) for envelope in events):
        standing(session, events, recorded.before)
    if (opened := _opening(events)) is not None:
        with _or_close(session):
            _served_here(opened, home, roles)


def _opening(events: Sequence[Envelope]) -> SessionOpened | None:
    return next((event for envelope in events if isinstance(event := envelope.event(), SessionOpened)), None)


@contextmanager
def _or_close(session: str) -> Iterator[None]:
    """Where a pool is not served here, name the other way to end the session."""
    try:
        yield
    except PoolError as error:
        raise PoolError(f"{error}; or `kernelswarm resume {session} --close` ends it with what it has") from error


def _run_candidates(roles: Mapping[str, int]) -> bool:
    return any(ROLES[role].needs_device for role in roles)


def _served_here(opened: SessionOpened, home: Path, roles: Mapping[str, int]) -> Pool:
    """The pool that a session goes on in: its own where nothing is run.

    Raises:
        InputError: there is none of that name here, or the session's synthesizer cannot work.
    """
    if roles and not _run_candidates(roles):
        return opened.pool
    check_authors(authors_of(opened), opened.roles)
    return find_pool(opened.pool.name, home)


async def _everything(session: str, home: Path, bus: Bus, recorded_here: bool) -> tuple[list[Envelope], list[Envelope]]:
    """All events of the session in order, and those of them that the stream does not hold any more."""
    streamed = await bus.history(session)
    if recorded_here and streamed:
        await wait_recorded(home, bus, streamed[-1][0])
    held = list({envelope.id: envelope for _, envelope in streamed}.values())
    try:
        log_bus = None if recorded_here else bus
        events = [envelope for _, envelope in await read_recorded(home, session, bus=log_bus, verify=True)]
    except UnknownSession:
        if not held:
            raise
        events = []
    held_ids, ids = {envelope.id for envelope in held}, [envelope.id for envelope in events]
    missing = [envelope for envelope in events if envelope.id not in held_ids]
    if not missing:
        return held, []
    if [envelope.id for envelope in held] != ids[: len(held)]:
        raise BusError(
            f"the event bus at {bus.url} holds only a later part of session {session}, which cannot be put in order "
            f"any more: fork it instead"
        )
    return events, missing


async def _restore_artifacts(graph: SearchGraph, device: Device, on_notice: Callable[[str], None]) -> None:
    """Compile again what may still be run and lies neither here nor on the bus: compilers give the same bytes again."""
    for node in graph.own():
        report, candidate = node.compile_report, node.candidate
        if report is None or candidate is None or not report.ok or (node.diagnosis and not node.fitness):
            continue
        if not all(device.has(artifact) for artifact in report.artifacts):
            on_notice(f"compiling {node.name} again")
            await device.compile(candidate.source, candidate.language)


def _confirms(graph: SearchGraph) -> bool:
    """Whether nothing more is planned, and the deadline is still to come."""
    has_deadline = graph.opened is not None and graph.opened.reserve > 0
    return has_deadline and graph.stop is not None and graph.stop.reason not in (DEADLINE, INTERRUPTED, REFERENCE_DIED)


def _minutes_left(opened: SessionOpened, events: Sequence[Envelope]) -> float | None:
    if opened.minutes is None:
        return None
    times = sorted(envelope.at_ns for envelope in events)
    gaps = [(later - earlier) / 1e9 for earlier, later in pairwise(times)]
    return max(0.0, opened.minutes - sum(min(gap, LONGEST_STEP_S) for gap in gaps) / 60)


def _say_if_moved(opened: SessionOpened, hardware: HardwareFacts, on_notice: Callable[[str], None]) -> None:
    if opened.hardware.device != hardware.device:
        on_notice(f"the session began on {opened.hardware.device}; from here on it is measured on {hardware.device}")
