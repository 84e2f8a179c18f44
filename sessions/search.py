"""One search from end to end: validate the problem, join a bus, record, serve the ring, follow it to its close."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import structlog

from ..agents.ancestors import reader
from ..agents.distiller import lesson
from ..agents.registry import ALL_ROLES, ROLES, widened
from ..agents.synthesizer.authors import asks_a_model, check_authors, check_prices
from ..agents.synthesizer.backend import GIVEN
from ..bus import Bus
from ..graph.inheritance import LoggedEvent, inherited_at
from ..graph.session_graph import SearchGraph
from ..hardware.pools.pool_files import find_pool
from ..schemas import (
    DEADLINE,
    REFERENCE_DIED,
    BusError,
    Envelope,
    Event,
    InputError,
    Origin,
    Problem,
    SessionClosed,
    SkillDistilled,
)
from ..store import wait_recorded
from .adaptation import Target
from .concurrency import kept_busy
from .orphaned import left_alone, orphaned_session
from .results import SearchResult, result_of
from .search_context import SearchContext, search_context
from .search_options import SearchOptions
from .seed import seeding
from .session import new_session_id, open_session, request_stop
from .skills import skills_for
from .swarm import Swarm, serving
from .timer import idle_limit, timed
from .worker_availability import watch_availability

SKILL_WAIT_S = 60.0
"""How long a closed session waits for a skill that is to come; it is recorded later if it comes later."""

LATE_SKILL_WAIT_S = 2.0
"""How long it does where the session's time is over: what needs no model comes at once."""

MODEL_WAIT_S = 240.0
"""How long it waits for one where the distiller asks a model: both answers, with their tries."""

LEAVING_S = 20.0
"""How long who is interrupted twice waits for workers to leave, and for what they still published."""

WITHOUT_BASELINES = ("interrupted", "failed", REFERENCE_DIED)
"""Reasons of a close after which nobody waits for baselines."""
BASELINES_WAIT_S = 300.0
"""How long a session in which nothing was timed waits, once closed, for its baselines: max-autotune takes a minute."""

log = structlog.get_logger(__name__)


class Search:
    """A running search. Iterate over :meth:`events` to its end, then ask for :meth:`result`."""

    def __init__(
        self,
        session: str,
        pool: str,
        bus: Bus,
        swarm: Swarm | None,
        opened_id: str,
        after: int,
        before: Sequence[LoggedEvent] = (),
    ) -> None:
        """``before`` is what a fork inherited."""
        self.session = session
        self.graph = SearchGraph(session, before)
        self.swarm = swarm
        self.notify_of_memory: Callable[[Callable[[str], None]], None] = lambda _: None
        """Has somebody told when its device has no memory left for it."""
        self.notify_of_others: Callable[[Callable[[str], None]], None] = lambda _: None
        """Has somebody told, once, that another session uses its device."""
        self.leave: Callable[[], Awaitable[None]] | None = None
        """Ends the workers that serve it here; None where nobody does."""
        self.wants_baselines = True
        """Whether the baselines of a search in which nothing was timed are worth waiting for."""
        self.notes: tuple[str, ...] = ()
        """What a person should know of how it was opened, a line each."""
        self._pool = pool
        self._bus = bus
        self._opened_id = opened_id
        self.seen = after
        """Stream sequence of the last event that was followed."""
        self._last_event = time.monotonic()
        self._started = time.monotonic()
        self._seconds: float | None = None
        self._deadline: float | None = None
        """When nothing more is waited for, on the loop's clock."""
        self._waiting: asyncio.Timeout | None = None
        self._unserved: list[str] = []
        self._taught = False

    async def events(self) -> AsyncIterator[tuple[Envelope, Event]]:
        """Every event of the session, folded into :attr:`graph` as it comes; ends after the close and its skill.

        Where nothing was timed the baselines are waited for as well: they are worth knowing all the same.

        Raises:
            OrphanedSession: its minutes are over, and nobody is there to close it.
        """
        tail = self._bus.tail(session=self.session, after=self.seen)
        async with contextlib.aclosing(tail):
            while True:
                try:
                    async with asyncio.timeout_at(self._deadline) as self._waiting:
                        self.seen, envelope = await anext(tail)
                except (TimeoutError, StopAsyncIteration):
                    if self._unserved:
                        why = self.graph.stop.reason if self.graph.stop else "minutes"
                        raise orphaned_session(self.session, why, self._pool, self._unserved, self._bus.url) from None
                    break
                finally:
                    self._waiting = None
                event = envelope.event()
                if event is None:
                    continue
                self._fold(envelope, event)
                self._last_event = time.monotonic()
                yield envelope, event
                self._taught = self._taught or isinstance(event, SkillDistilled)
                if isinstance(event, SessionClosed):
                    wait_s = BASELINES_WAIT_S if self.awaits_baselines else self._skill_wait_s
                    self._deadline = asyncio.get_running_loop().time() + wait_s
                if self.graph.closed is not None and not self._is_incomplete(self.graph.closed):
                    break
        opened = self.graph.opened
        if self.leave is not None and opened is not None and (asks_a_model(opened.synthesizer) or opened.roles):
            # What models were asked and was cut off with the workers was paid for, as the result says.
            async for late in self._leaving():
                yield late

    async def _leaving(self) -> AsyncIterator[tuple[Envelope, Event]]:
        """Ends the workers that serve it here, and yields what they still published."""
        if self.leave is not None:
            await self.leave()
        for seq, envelope in await self._bus.history(self.session, after=self.seen):
            self.seen, event = seq, envelope.event()
            if event is not None:
                self._fold(envelope, event)
                yield envelope, event

    def _fold(self, envelope: Envelope, event: Event) -> None:
        self.graph.apply(envelope, event)
        if isinstance(event, SessionClosed):
            # Of a resumed session as well: its log begins with its opening.
            self._seconds = (envelope.at_ns - self.graph.opened_ns) / 1e9

    async def is_closed_after_all(self) -> bool:
        """For who follows it and was cancelled: whether it has a result all the same, which is to be written then.

        Its planner may have closed it while the workers left. If so, the cancellation is taken back.
        """
        with contextlib.suppress(BusError, TimeoutError):
            async with asyncio.timeout(LEAVING_S):
                async for _ in self._leaving():
                    pass
        task = asyncio.current_task()
        if self.graph.closed is None or task is None:
            return False
        task.uncancel()
        return True

    @property
    def awaits_baselines(self) -> bool:
        """Whether it is a closed search in which nothing was timed, and its baselines are on their way."""
        opened, closed = self.graph.opened, self.graph.closed
        if opened is None or opened.synthesizer == GIVEN or self.graph.baselines is not None:
            return False
        ended = closed is not None and not closed.best and closed.reason not in WITHOUT_BASELINES
        return ended and self.wants_baselines and not self._is_cut_off and self._serves_itself()

    @property
    def seconds(self) -> float:
        """From the opening to now."""
        return time.monotonic() - self._started

    @property
    def idle_s(self) -> float:
        """Seconds since something happened, while it waits for nobody but outside authors; else 0."""
        return time.monotonic() - self._last_event if self.graph.waits_for_outside else 0.0

    @property
    def _is_late(self) -> bool:
        """Whether all of its time is over."""
        return self.graph.stop is not None and self.graph.stop.reason == DEADLINE

    @property
    def _is_cut_off(self) -> bool:
        """Whether its time is over, or somebody had enough: a close after ``minutes`` still names these as its reason,
        and waited for baselines that nobody wanted any more."""
        return self.graph.stop is not None and self.graph.stop.reason in (DEADLINE, "interrupted")

    @property
    def _skill_wait_s(self) -> float:
        if self._is_late:
            return LATE_SKILL_WAIT_S
        roles = self.graph.opened.roles if self.graph.opened is not None else ()
        return MODEL_WAIT_S if any(role.role == "distiller" for role in roles) else SKILL_WAIT_S

    def _is_incomplete(self, closed: SessionClosed) -> bool:
        return self.awaits_baselines or (not self._taught and self._teaches(closed))

    def _teaches(self, closed: SessionClosed) -> bool:
        """Whether a skill is to come: what the distiller says follows from the events."""
        opened = self.graph.opened
        return opened is not None and lesson(opened, self.graph, self.session, closed) is not None

    async def watch_workers(self, on_notice: Callable[[str], None]) -> None:
        """Tell when the session waits for workers that are missing (:func:`.watch_availability`), or for memory."""
        self.notify_of_memory(on_notice)
        if not self._serves_itself():
            await watch_availability(self._bus, self._pool, on_notice)

    async def end_orphaned(self) -> None:
        """Once the session goes nowhere, because nobody serves it, let :meth:`events` end with that.

        Raises:
            BusError: the server is away.
        """
        if self._serves_itself():
            return
        missing = await left_alone(self._bus, self._pool, self.session, lambda: self.seen)
        if self.graph.closed is None:
            self._unserved = missing
            self._end_now()

    def _end_now(self) -> None:
        self._deadline = asyncio.get_running_loop().time()
        if self._waiting is not None:
            self._waiting.reschedule(self._deadline)

    def _serves_itself(self) -> bool:
        return self.swarm is not None and {worker.agent.role for worker in self.swarm.workers} == set(ROLES)

    async def stop(self, reason: str) -> None:
        """Ask the session to end; ``interrupted`` closes it at once, anything else confirms its finalists first.

        What is still waited for once it is closed is given up.
        """
        if self.graph.closed is not None:
            self._end_now()
            return
        await request_stop(self._bus, self.session, self._pool, self._opened_id, reason)

    async def wait_recorded(self, home: Path) -> None:
        """Wait until the log has everything, what was cut off with the workers included; these must have left."""
        late = await self._bus.history(self.session, after=self.seen)
        await wait_recorded(home, self._bus, late[-1][0] if late else self.seen)

    def result(self, path: str = "") -> SearchResult:
        """What it came to.

        Raises:
            ValueError: it is still open.
        """
        seconds = self._seconds if self._seconds is not None else self.seconds
        return result_of(self.graph, self._pool, seconds, path)


@asynccontextmanager
async def searching(
    problem: Problem,
    pool_name: str,
    options: SearchOptions,
    *,
    home: Path,
    nats: str = "",
    roles: Mapping[str, int] = ALL_ROLES,
    origin: Origin | None = None,
    on_notice: Callable[[str], None] = lambda _: None,
    began: float | None = None,
) -> AsyncIterator[Search]:
    """Open a session for ``problem`` and serve it with ``roles`` in this process (none: others must be there).

    With ``origin`` it is a fork. ``on_notice`` is told in a few words what is happening before the first event.
    ``began`` is when its minutes began, on the monotonic clock: by default now.

    Raises:
        InputError: the problem, the pool or an option cannot be used; no session exists then.
        BusError: the bus cannot be reached.
    """
    began = time.monotonic() if began is None else began
    options.check()
    check_authors(options.authors, options.roles)
    if options.max_cost is not None:
        check_prices(options.authors, home, options.roles)
    pool = find_pool(pool_name, home)
    options.check_pool(pool)
    if origin is not None and options.language not in pool.languages:
        raise InputError(
            f"pool {pool.name} takes {', '.join(pool.languages)}, session {origin.session} writes {options.language}: "
            "choose another pool, or search there anew"
        )
    async with (
        search_context(
            problem, pool, home=home, nats=nats, on_notice=on_notice, minutes=options.minutes, began=began
        ) as context,
        session_on(context, options, roles=roles, origin=origin, began=began) as search,
    ):
        yield search


@asynccontextmanager
async def session_on(
    context: SearchContext,
    options: SearchOptions,
    *,
    roles: Mapping[str, int] = ALL_ROLES,
    origin: Origin | None = None,
    session: str = "",
    began: float | None = None,
) -> AsyncIterator[Search]:
    """Open one session with options that were checked, and serve it; on leaving, its events are in the log.

    ``session`` is its id, where somebody has to know it before the session is there; ``began`` is when its minutes
    began, on the monotonic clock: by default now.

    Raises:
        InputError: a session to seed from cannot be used, or the problem is too long for an author's prompt.
        BusError: the bus is gone.
    """
    problem, facts, pool, hardware, device, (bus, recorded_here), home, nats = context
    session = session or new_session_id(problem.name)
    options = replace(options, language=options.language or pool.languages[0])
    async with AsyncExitStack() as stack:
        workers, swarm = await stack.enter_async_context(AsyncExitStack()), None
        if roles:
            # On a server of our own we serve our own session: one that a killed process left open waits to be resumed
            # and takes no core from this one. On a cluster the pool's workers share whatever is there.
            only = None if nats else session
            swarm = await workers.enter_async_context(
                serving(
                    bus,
                    pool,
                    hardware,
                    home,
                    widened(roles, options.synthesizer, options.roles),
                    device=device,
                    session=only,
                )
            )
        before = await inherited_at(origin, reader(bus, home))
        target = Target(problem, facts, pool, hardware)
        seeds = await seeding(home, target, options.seed_from, options.budget, bus=bus)
        skills = await skills_for(home, bus, facts, pool)
        options = await kept_busy(options, bus, pool.name, roles, hardware, alone=not nats)
        spent_s = 0.0 if began is None else time.monotonic() - began
        seq, opened = await open_session(
            *(bus, session, problem, facts, pool, hardware, options),
            spent_s=spent_s,
            skills=skills,
            origin=origin,
            seed_kernels=seeds.kernels,
            version=version("kernelswarm"),
            home=home,
        )
        search = Search(session, pool.name, bus, swarm, opened.id, seq - 1, before)
        search.leave = workers.aclose if swarm is not None else None
        search.notes = seeds.notes
        search.notify_of_memory = lambda notice: device.memory.notify(problem, notice)
        search.notify_of_others = device.notify_of_others
        if options.minutes is not None:
            reserve = options.reserve(len(facts.timed))
            stack.enter_context(timed(search, options.minutes - spent_s / 60, reserve))
        if options.idle:
            stack.enter_context(idle_limit(search, options.idle * 60))
        yield search
        await workers.aclose()
        if recorded_here:
            await search.wait_recorded(home)
