"""How many events a second are replayed: read from the log, chain checked, decoded, folded, decided anew, compared.

The sessions are synthetic but real in shape: the effects (sources, compiler reports, verdicts, raw timings) are those
of a recorded history with the figures varied; what planner, analyst and distiller say to them the real ones say.
Timed are a log of sessions of the usual size and single sessions that are far longer. Beside the whole way stands the
replay alone, of envelopes that are in memory already, and what opening the log takes, once, however long it is.

    python benchmarks/replay.py [--events 60000] [--json]
"""

import argparse
import gc
import json
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from _shared import RESULTS, ROOT, machine, now, save, table, versions

from kernelswarm.schemas import (
    CandidateCompiled,
    CandidateProfiled,
    CandidateProposed,
    CandidateVerified,
    ConfirmationPlanned,
    Envelope,
    Event,
    Evidence,
    NodePlanned,
    SessionOpened,
    Verdict,
    VerificationFailed,
    VerifyReport,
    encode,
    seal,
)
from kernelswarm.sessions.replay import Replay
from kernelswarm.store import Log, log_path
from kernelswarm.store.verified_session import verified_in

sys.path.insert(0, str(ROOT / "tests" / "support"))
import histories

REQUIRED = 20_000
"""Events a second that have to be replayed, log and all."""

SHAPE = "v1-budget"
USUAL_NODES = 40
LONG_NODES = (400, 2000)
REPEATS = 8
WRONG_SHARE = 0.1
SECOND = 1_000_000_000


class Effects:
    """What the outside answers, in the shapes of a recorded history."""

    def __init__(self, seed: int) -> None:
        (events,) = histories.read(SHAPE).values()
        self._random = random.Random(seed)
        self._by_kind: dict[type[Event], list[Any]] = {}
        for event in (envelope.event() for envelope in events):
            if event is not None:
                self._by_kind.setdefault(type(event), []).append(event)
        self.opened: SessionOpened = self._by_kind[SessionOpened][0]

    def answers(self, event: Event) -> Iterator[tuple[str, Event]]:
        """(role, event) that the outside says to ``event``."""
        match event:
            case NodePlanned():
                yield "synthesizer", self._proposed()
            case CandidateProposed():
                yield "compiler", self._any(CandidateCompiled)
            case CandidateCompiled() if self._random.random() < WRONG_SHARE:
                wrong = VerifyReport(
                    verdict=Verdict.wrong_numbers, isolation="process", evidence=Evidence(message="1 of 9 differs")
                )
                yield "verifier", VerificationFailed(report=wrong)
            case CandidateCompiled():
                yield "verifier", self._any(CandidateVerified)
            case CandidateVerified():
                yield "profiler", self._timed(confirmation=False)
            case ConfirmationPlanned():
                yield "profiler", self._timed(confirmation=True)

    def _any(self, kind: type[Event]) -> Any:
        return self._random.choice(self._by_kind[kind])

    def _proposed(self) -> CandidateProposed:
        proposed = self._any(CandidateProposed)
        tunables = {name: self._random.randrange(4) for name in proposed.recipe}
        return msgspec.structs.replace(proposed, recipe=tunables)

    def _timed(self, *, confirmation: bool) -> CandidateProfiled:
        profiled = self._any(CandidateProfiled)
        timing, factor = profiled.report.timing, self._random.uniform(0.5, 1.5)
        speedup = {
            name: msgspec.structs.replace(
                interval, median=interval.median * factor, low=interval.low * factor, high=interval.high * factor
            )
            for name, interval in timing.speedup.items()
        }
        report = msgspec.structs.replace(profiled.report, timing=msgspec.structs.replace(timing, speedup=speedup))
        return CandidateProfiled(report=report, confirmation=confirmation)


def made(session: str, nodes: int, seed: int) -> list[Envelope]:
    """A closed session of ``nodes`` candidates, as its ring would have said it."""
    effects, ring, envelopes = Effects(seed), Replay(session), []
    options = {"stall": nodes + 1}
    opened = msgspec.structs.replace(effects.opened, budget=nodes, seed=seed, policy_options=options, target=None)
    waiting = deque([seal(opened, session=session, cause="", node="", at_ns=SECOND, agent="user", **_PLACE)])
    while waiting:
        envelope = waiting.popleft()
        envelopes.append(envelope)
        event = envelope.event()
        assert event is not None
        before = {output.id for output in ring.unsaid}
        ring.feed(len(envelopes), envelope, event)
        at_ns = SECOND * (len(envelopes) + 1)
        for output in ring.unsaid:
            if output.id not in before:
                sealed = seal(
                    output.event,
                    session=session,
                    cause=envelope.id,
                    node=output.node,
                    at_ns=at_ns,
                    agent=output.role,
                    **_PLACE,
                )
                waiting.append(msgspec.structs.replace(sealed, id=output.id))
        for role, answer in effects.answers(event):
            waiting.append(
                seal(answer, session=session, cause=envelope.id, node=envelope.node, at_ns=at_ns, agent=role, **_PLACE)
            )
    return envelopes


_PLACE = {"pool": "bare", "worker": "host.1.bench.1"}


class Shape:
    """A log of some sessions, and how fast it was replayed."""

    def __init__(self, sessions: list[list[Envelope]], home: Path) -> None:
        self._sessions = sessions
        self._path = log_path(home)
        self._rates: dict[str, list[dict[str, float]]] = {"from_log": [], "with_opening": [], "replay_alone": []}
        wire = [encode(envelope) for session in sessions for envelope in session]
        self._events, self._bytes = len(wire), sum(map(len, wire))
        with Log.open(self._path) as log:
            log.append(list(enumerate(wire, 1)), stream="bench")

    def measure(self) -> None:
        """Once: out of an open log, with its opening, and the replay alone."""
        with Stopwatch() as around, Log.open(self._path, read_only=True) as log, Stopwatch() as watch:
            events = sum(replayed(list(verified_in(log, session[0].session))) for session in self._sessions)
        assert events == self._events
        self._rates["from_log"].append(watch.rates(events))
        self._rates["with_opening"].append(around.rates(events))
        with Stopwatch() as watch:
            events = sum(replayed(list(enumerate(session, 1))) for session in self._sessions)
        self._rates["replay_alone"].append(watch.rates(events))

    def figures(self) -> dict[str, Any]:
        """The best of every measurement, which other tenants of the machine disturbed least, the medians, and all."""
        figures = {
            "sessions": len(self._sessions),
            "events": self._events,
            "bytes_per_event": self._bytes / self._events,
        }
        medians = {name: median(rate["per_second"] for rate in rates) for name, rates in self._rates.items()}
        best_of = {name: best(rates) for name, rates in self._rates.items()}
        return {**figures, **best_of, "median_per_second": medians, "all": self._rates}


class Stopwatch:
    """Wall and processor time of its body. On a machine that does other things as well the two differ."""

    def __enter__(self) -> "Stopwatch":
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self._wall, self._cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu

    def rates(self, events: int) -> dict[str, float]:
        """Events a second of both."""
        return {"per_second": events / self._wall, "per_cpu_second": events / self._cpu}


def best(rates: list[dict[str, float]]) -> dict[str, float]:
    """The highest of each."""
    return {name: max(rate[name] for rate in rates) for name in rates[0]}


def replayed(history: list[tuple[int, Envelope]]) -> int:
    """Replay one session; how many events it had.

    Raises:
        ReplayDivergence: the history is none.
    """
    running = Replay(history[0][1].session)
    for seq, envelope in history:
        running.feed(seq, envelope, envelope.event())
    assert running.finish().status == "closed"
    return len(history)


def main() -> int:
    """Exit status 1 if fewer events a second were replayed than required."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=60_000, help="in the log of usual sessions, about")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args()
    results = {"benchmark": "replay", "date": now(), "versions": versions(), "machine": machine(), "runs": {}}
    usual = [made("usual-0", USUAL_NODES, 0)]
    while sum(map(len, usual)) < options.events:
        usual.append(made(f"usual-{len(usual)}", USUAL_NODES, len(usual)))
    runs = {f"{len(usual)} sessions of {USUAL_NODES} candidates": usual}
    runs |= {f"one session of {nodes:,} candidates": [made(f"long-{nodes}", nodes, nodes)] for nodes in LONG_NODES}
    with tempfile.TemporaryDirectory() as home:
        shapes = {name: Shape(sessions, Path(home, str(i))) for i, (name, sessions) in enumerate(runs.items())}
        # What was made here is not the replay's: the collector would walk all of it again and again.
        gc.collect()
        gc.freeze()
        # In turns: a machine that is slow for some seconds is so for all of them.
        for _ in range(REPEATS):
            for shape in shapes.values():
                shape.measure()
    results["runs"] = {name: shape.figures() for name, shape in shapes.items()}
    rates = [run["from_log"]["per_second"] for run in results["runs"].values()]
    results |= {"required_per_second": REQUIRED, "ok": min(rates) >= REQUIRED}
    save(RESULTS / "replay.json", results)
    print(json.dumps(results) if options.json else report(results))
    return 0 if results["ok"] else 1


def report(results: dict[str, Any]) -> str:
    """The figures for people."""
    rows = [
        (
            name,
            f"{run['events']:,}",
            f"{run['bytes_per_event']:,.0f}",
            f"{run['from_log']['per_second']:,.0f}",
            f"{run['median_per_second']['from_log']:,.0f}",
            f"{run['from_log']['per_cpu_second']:,.0f}",
            f"{run['with_opening']['per_second']:,.0f}",
            f"{run['replay_alone']['per_second']:,.0f}",
        )
        for name, run in results["runs"].items()
    ]
    header = (
        "events a second",
        "events",
        "bytes each",
        "from the log",
        "median",
        "per CPU second",
        "with opening",
        "replay alone",
    )
    return f"{table(header, rows)}\nrequired {REQUIRED:,} a second from the log: {'met' if results['ok'] else 'MISSED'}"


if __name__ == "__main__":
    sys.exit(main())
