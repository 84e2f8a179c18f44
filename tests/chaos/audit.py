"""What must hold after a round: the stream, the log and the decisions agree, and nobody is left behind."""

import asyncio
import itertools
from collections import defaultdict
from pathlib import Path

from kernelswarm.bus import Bus
from kernelswarm.schemas import CandidateProposed, Envelope, NodeDiagnosed, ReplayDivergence, Verdict
from kernelswarm.sessions.replay import replay
from kernelswarm.store import run_sql, wait_recorded
from kernelswarm.store.chain import GENESIS, Row, chain_hash, disagreement

from .plans import RoundPlan
from .problem import EXCUSED, VERDICTS, candidate

RECORDED_S = 60.0
_ALL = 100_000


class Chain:
    """The log's chain as far as it was followed."""

    def __init__(self) -> None:
        self.seq = 0
        self.head = GENESIS
        self.faulty = False

    def follow(self, rows: list[Row]) -> list[str]:
        """Follow it over ``rows``; what is wrong with it."""
        wrong = self._follow(rows)
        self.faulty = self.faulty or bool(wrong)
        return wrong

    def _follow(self, rows: list[Row]) -> list[str]:
        for row in rows:
            if row.seq != self.seq + 1:
                return [f"the log's event after {self.seq} stands at {row.seq}"]
            wrong = disagreement(row)
            if wrong:
                return [f"event {row.seq} of the log: {wrong}"]
            if row.hash != chain_hash(row, self.head):
                return [f"event {row.seq} of the log does not follow from the one before it"]
            self.seq, self.head = row.seq, row.hash
        return []


async def audit(home: Path, bus: Bus, session: str, plan: RoundPlan, chain: Chain) -> list[str]:
    """Everything that is wrong after a round, each in a sentence that says what was expected and what was found."""
    for look in itertools.count():
        stored = await stream_of(bus, session, look)
        if not stored:
            return [f"session {session} was never opened"]
        await wait_recorded(home, bus, stored[-1][0], timeout=RECORDED_S)
        rows = await _rows_of(home, bus, chain.seq)
        # A step that was under way when the session closed is still answered: look again with that in it.
        if len(await bus.history(session)) == len(stored):
            break
    faults = chain.follow(rows)
    faults += same(stored, [row for row in rows if row.session == session])
    return faults + decided_alike(session, stored) + judged_rightly(plan, stored)


async def _rows_of(home: Path, bus: Bus, after: int) -> list[Row]:
    sql = "SELECT * FROM events WHERE seq > ? ORDER BY seq"
    table = await run_sql(home, sql, params=(after,), bus=bus, max_rows=_ALL)
    return [Row._make(row) for row in table.rows]


async def stream_of(bus: Bus, session: str, look: int) -> list[tuple[int, bytes, Envelope]]:
    """The session's messages with their exact bytes: sequence, bytes, envelope. Each ``look`` begins with the first."""
    count = len(await bus.history(session))
    messages: list[tuple[int, bytes, Envelope]] = []
    async with (
        asyncio.timeout(RECORDED_S),
        bus.consume("*", f"audit-{look}", [], max_in_flight=1000, session=session) as every,
    ):
        while len(messages) < count:
            delivery = await anext(every)
            messages.append((delivery.seq, delivery.data, delivery.envelope))
            await delivery.ack()
    return sorted(messages, key=lambda message: message[0])


def same(stored: list[tuple[int, bytes, Envelope]], rows: list[Row]) -> list[str]:
    """The log must hold the first copy of every id, in the stream's order, byte for byte."""
    first: dict[str, tuple[int, bytes]] = {}
    for seq, data, envelope in stored:
        first.setdefault(envelope.id, (seq, data))
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row.id] += 1
    faults = [f"event {event_id} (message {seq}) is on the stream but not in the log"
              for event_id, (seq, _) in first.items() if not counts[event_id]]  # fmt: skip
    faults += [f"event {event_id} is {count} times in the log" for event_id, count in counts.items() if count > 1]
    faults += [f"event {event_id} is in the log but not on the stream" for event_id in counts if event_id not in first]
    faults += [f"event {row.id} has other bytes in the log than on the stream" for row in rows
               if row.id in first and row.message != first[row.id][1]]  # fmt: skip
    if not faults and [row.id for row in rows] != list(first):
        faults.append("the log has the events in another order than the stream")
    return faults


def decided_alike(session: str, stored: list[tuple[int, bytes, Envelope]]) -> list[str]:
    """A fresh planner, analyst and distiller, fed the session, must say what was said, to the last word."""
    try:
        report = replay(session, ((seq, envelope) for seq, _, envelope in stored))
    except ReplayDivergence as error:
        return [str(error)]
    faults = [f"a replay says more than the session: {output}" for output in report.unsaid]
    return faults if report.status == "closed" else [*faults, f"session {session} has no end"]


def judged_rightly(plan: RoundPlan, stored: list[tuple[int, bytes, Envelope]]) -> list[str]:
    """Every candidate must have been judged, and as what it is: a broken machine must not show in a verdict."""
    names = {candidate(name, number): name for number, name in enumerate(plan.candidates, 1)}
    proposed: dict[str, str] = {}
    judged: dict[str, Verdict] = {}
    for _, _, envelope in stored:
        event = envelope.event()
        if isinstance(event, CandidateProposed):
            proposed[envelope.node] = names[event.source]
        elif isinstance(event, NodeDiagnosed):
            judged[envelope.node] = event.verdict
    excuses = EXCUSED if any(injection.kind == "candidate" for injection in plan.injections) else ()
    return [
        f"candidate {node} ({name}) was judged {judged.get(node, 'not at all')}, not {VERDICTS[name][0]}"
        for node, name in proposed.items()
        if judged.get(node) not in (*VERDICTS[name], *excuses)
    ] + [f"{len(names) - len(proposed)} candidates were never made"] * (len(proposed) < len(names))
