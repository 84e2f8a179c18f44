"""How an agent lives: it takes deliveries, folds the session's history, answers with events, acknowledges last.

Delivery is at least once; ids are deterministic, so effect is exactly once. What a dead agent held goes to another
worker of the role; after :data:`GIVE_UP_AFTER` deliveries the step fails with an event of its own.
"""

import asyncio
import os
import socket
import time
import traceback
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from ..bus import Bus, Consumer, Delivery, FairConsumer
from ..graph.inheritance import LoggedEvent, inherited
from ..graph.session_graph import SearchGraph
from ..schemas import (
    REFERENCE_DIED,
    Envelope,
    Event,
    KernelswarmError,
    ReferenceDied,
    SessionOpened,
    StopRequested,
    event_tag,
    seal,
)
from .ancestors import reader

GIVE_UP_AFTER = 4
"""Deliveries of one event after which a role stops trying and says so."""

PULSES_PER_ACK_WAIT = 3
"""How often, within the bus's acknowledgement wait, a long step tells the server that it is alive."""

REASON_CHARACTERS = 2000
"""Of an error's text that goes into an event."""

SESSIONS_KEPT = 32
"""Sessions whose history a process holds in memory: a worker of a cluster sees any number of them."""

MOST_POSTPONED = 2
"""Times that a step is postponed: what comes before it may never end."""
POSTPONED_S = 1.0
"""For so long, at least: what waits behind it has its turn at once."""

TURN = 64
"""Events that are decoded or folded before other tasks of the event loop have a turn."""

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Work:
    """One event to answer."""

    envelope: Envelope
    event: Event
    graph: SearchGraph
    """The session up to and including this event."""
    seq: int
    """Stream sequence of the event."""
    may_wait: bool = False
    """Whether it may be :class:`Postponed`."""

    @property
    def opened(self) -> SessionOpened:
        """The session's first event.

        Raises:
            KernelswarmError: the stream no longer holds it.
        """
        if self.graph.opened is None:
            raise KernelswarmError(f"session {self.envelope.session}: its opening event is no longer on the bus")
        return self.graph.opened


class Postponed(Exception):
    """What waits behind the step in hand comes first."""


@dataclass(frozen=True)
class Answer:
    """An event an agent wants said, and the node it speaks of (by default the one that was asked about)."""

    event: Event
    node: str | None = None


class Agent:
    """What a role offers. Adding an agent means adding a file and naming it in ``agents/registry.py``."""

    role: str
    consumes: tuple[type[Event], ...]

    async def handle(self, work: Work) -> Sequence[Answer]:
        """Answer one event. An exception counts as a failed try, not as an answer."""
        raise NotImplementedError

    def give_up(self, work: Work, reason: str) -> Sequence[Answer]:
        """What to say when the step failed on every try."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release what the agent holds: nothing, but where one says otherwise."""


Entry = tuple[int, Envelope, Event | None]
"""Stream sequence, envelope, and the typed body if this version knows the tag."""


class _History:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.first: dict[str, int] = {}
        """Stream sequence at which an event id was stored first."""
        self.read_to = 0
        self.before: list[LoggedEvent] | None = None
        """What a fork inherited; None until somebody asked."""
        self.lock = asyncio.Lock()


class Histories:
    """Decoded events by session, fetched once per process and shared by its agents.

    The sessions that were asked for last are kept; an older one is fetched anew if somebody comes back to it.
    """

    def __init__(self, bus: Bus, home: Path | None = None) -> None:
        """``home`` is where the log may lie in which a fork's parent is read if the stream has lost it."""
        self._bus = bus
        self._past = reader(bus, home)
        self._histories: LatestUsed[_History] = LatestUsed(_History)

    async def read(self, session: str, until: int) -> list[Entry]:
        """All events of ``session`` with stream sequence up to ``until``, in order."""
        history = self._histories[session]
        async with history.lock:
            if history.read_to < until:
                stored = await self._bus.history(session, after=history.read_to, until=until)
                decoded = [(seq, envelope, envelope.event()) async for seq, envelope in in_turns(stored)]
                for seq, envelope, event in decoded:
                    # The stream forgets ids after its window, the log never does: a copy that came after it must
                    # not count here either, or the agents would decide on another history than the log's.
                    if history.first.setdefault(envelope.id, seq) == seq:
                        history.entries.append((seq, envelope, event))
                history.read_to = until
        return [entry for entry in history.entries if entry[0] <= until]

    async def before(self, session: str, opened: SessionOpened) -> list[LoggedEvent]:
        """What ``session`` inherited from before it was opened; nothing unless it is a fork."""
        history = self._histories[session]
        async with history.lock:
            if history.before is None:
                history.before = await inherited(opened, self._past)
        return history.before

    async def repeats(self, envelope: Envelope, seq: int) -> bool:
        """Whether the event at ``seq`` is a copy of one that the stream stored before."""
        await self.read(envelope.session, seq)
        return self._histories[envelope.session].first.get(envelope.id, seq) != seq


async def in_turns(items: Sequence[T]) -> AsyncIterator[T]:
    """``items``, giving the event loop to others after every :data:`TURN`: a long history takes seconds to read."""
    for number, item in enumerate(items, 1):
        yield item
        if number % TURN == 0:
            await asyncio.sleep(0)


class LatestUsed(Generic[T]):
    """A value by session, made when first asked for; all but the last :data:`SESSIONS_KEPT` are dropped."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: OrderedDict[str, T] = OrderedDict()

    def __getitem__(self, session: str) -> T:
        if session not in self._values:
            self._values[session] = self._make()
        self._values.move_to_end(session)
        while len(self._values) > SESSIONS_KEPT:
            self._values.popitem(last=False)
        return self._values[session]


class Folds:
    """One worker's search graphs, advanced as deliveries come; an older delivery gets a graph folded anew."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self._reached: LatestUsed[list[tuple[int, SearchGraph]]] = LatestUsed(list)

    async def at(self, session: str, seq: int) -> SearchGraph:
        """The session's graph exactly as of stream sequence ``seq``."""
        entries = await self._histories.read(session, seq)
        held = self._reached[session]
        # Taken away while it is folded: a graph in which somebody stopped half-way is nobody's.
        reached, graph = held.pop() if held and held[0][0] <= seq else (0, await self._fresh(session, entries))
        async for _, envelope, event in in_turns([entry for entry in entries if entry[0] > reached]):
            if event is not None:
                graph.apply(envelope, event)
        held[:] = [(seq, graph)]
        return graph

    async def _fresh(self, session: str, entries: list[Entry]) -> SearchGraph:
        opened = next((event for _, _, event in entries if isinstance(event, SessionOpened)), None)
        return SearchGraph(session, () if opened is None else await self._histories.before(session, opened))


def worker_name(role: str, number: int) -> str:
    """``host.pid.role.n``: names a worker in envelopes and presence, decides nothing."""
    return f"{socket.gethostname().split('.')[0]}.{os.getpid()}.{role}.{number}"


class Worker:
    """One worker of a role."""

    def __init__(
        self,
        agent: Agent,
        bus: Bus,
        pool: str,
        histories: Histories,
        *,
        number: int = 1,
        session: str | None = None,
        answered: Collection[str] = (),
        clock_ns: Callable[[], int] = time.time_ns,
        give_up_after: int = GIVE_UP_AFTER,
    ) -> None:
        """``answered`` are ids of events that this role has answered before: a resumed session hears them again."""
        self.agent = agent
        self.name = worker_name(agent.role, number)
        self.busy_with = ""
        self.done = 0
        """Events answered so far."""
        self._bus = bus
        self._pool = pool
        self._session = session
        self._histories = histories
        self._folds = Folds(histories)
        self._answered = answered
        self._clock_ns = clock_ns
        self._give_up_after = give_up_after

    async def run(self) -> None:
        """Take and answer deliveries until cancelled."""
        role, kinds = self.agent.role, self.agent.consumes
        if self._session is None:
            consumer: Consumer | FairConsumer = self._bus.consume_round_robin(self._pool, role, kinds)
        else:
            consumer = self._bus.consume(self._pool, role, kinds, session=self._session)
        async with consumer:
            async for delivery in consumer:
                await self._take(delivery)

    async def _take(self, delivery: Delivery) -> None:
        envelope = delivery.envelope
        event = envelope.event()
        if event is None:
            await delivery.ack()
            return
        self.busy_with = f"{envelope.session}/{envelope.node}" if envelope.node else envelope.session
        try:
            await _kept_alive(
                delivery, self._answer(delivery, envelope, event), self._bus.ack_wait_s / PULSES_PER_ACK_WAIT
            )
        except Postponed:
            await delivery.nak(POSTPONED_S)
        except KernelswarmError as error:
            message, _, behind = str(error).partition("\n")
            log.warning("step failed", worker=self.name, node=envelope.node, error=message)
            if behind:
                log.debug("behind the failed step", worker=self.name, node=envelope.node, log=behind)
            await delivery.nak(min(2.0 ** (delivery.deliveries - 1), 10.0))
        except asyncio.CancelledError:
            # We leave in the middle of a step: another worker may have it at once, not after the server's patience.
            await delivery.nak()
            raise
        finally:
            self.busy_with = ""

    async def _answer(self, delivery: Delivery, envelope: Envelope, event: Event) -> None:
        if envelope.id in self._answered or await self._histories.repeats(envelope, delivery.seq):
            await delivery.ack()  # it has its answer, or whoever has the first copy answers it
            return
        graph = await self._folds.at(envelope.session, delivery.seq)
        work = Work(envelope, event, graph, delivery.seq, may_wait=delivery.deliveries <= MOST_POSTPONED)
        if delivery.deliveries > self._give_up_after:
            reason = f"{self.agent.role} gave up after {delivery.deliveries - 1} tries"
            answers = self.agent.give_up(work, reason)
        else:
            answers = await self._handle(work, last_try=delivery.deliveries == self._give_up_after)
        await self._bus.publish_many(self.sealed(envelope, answers))
        await delivery.ack()
        self.done += 1

    async def _handle(self, work: Work, *, last_try: bool) -> Sequence[Answer]:
        try:
            return await self.agent.handle(work)
        except ReferenceDied as error:
            # It was started anew already, as often as makes sense: another try would only end later.
            log.warning("reference died", worker=self.name, node=work.envelope.node, error=error.sentence)
            log.debug("behind the dead reference", worker=self.name, node=work.envelope.node, log=str(error))
            return self._without_reference(work, error)
        except Postponed:
            raise
        except Exception as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # What is cut off may break on its way out; a worker that went on then would never end.
                raise asyncio.CancelledError from error
            # A defect in an agent must cost one step, not the session: it is tried again, then said in an event.
            if not last_try:
                # An error of ours says in its message what went wrong; where a defect lies only its traceback does.
                if not isinstance(error, KernelswarmError):
                    log.warning("step raised", worker=self.name, node=work.envelope.node, exception=_traceback(error))
                raise KernelswarmError(f"{type(error).__name__}: {error}") from error
            return self.agent.give_up(work, f"{type(error).__name__}: {error}"[:REASON_CHARACTERS])

    def _without_reference(self, work: Work, error: ReferenceDied) -> Sequence[Answer]:
        """What is said of a step whose reference died; the session stops if no candidate has one any more."""
        sentence = error.sentence[:REASON_CHARACTERS]
        answers = self.agent.give_up(work, sentence)
        if not error.is_final:
            return answers
        return [*answers, Answer(StopRequested(reason=REFERENCE_DIED, detail=sentence), "")]

    def sealed(self, cause: Envelope, answers: Sequence[Answer]) -> list[Envelope]:
        """Envelopes with the deterministic ids that ``cause`` gives to ``answers``."""
        counts: dict[str, int] = defaultdict(int)
        out = []
        for answer in answers:
            tag = event_tag(type(answer.event))
            out.append(
                seal(
                    answer.event,
                    session=cause.session,
                    pool=cause.pool,
                    node=cause.node if answer.node is None else answer.node,
                    cause=cause.id,
                    agent=self.agent.role,
                    worker=self.name,
                    at_ns=self._clock_ns(),
                    index=counts[tag],
                )
            )
            counts[tag] += 1
        return out


def _traceback(error: Exception) -> str:
    """Without the variables of its frames, which some renderers add: a key may be among them."""
    return "".join(traceback.format_exception(error))


async def _kept_alive(delivery: Delivery, step: Awaitable[None], every_s: float) -> None:
    async def pulse() -> None:
        while True:
            await asyncio.sleep(every_s)
            await delivery.in_progress()

    beat = asyncio.ensure_future(pulse())
    try:
        await step
    finally:
        beat.cancel()
