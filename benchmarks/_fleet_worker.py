"""A process of the simulated fleet: many workers on a few connections, which answer at once.

Everything but the effect is real: dispatch tokens, per-session consumers, deliveries, publishing, acknowledging.
Run by ``fleet.py``.
"""

import asyncio
import sys
import time

from kernelswarm.bus import Bus
from kernelswarm.schemas import (
    Bottleneck,
    CandidateCompiled,
    CandidateProfiled,
    CandidateProposed,
    CandidateVerified,
    CompileReport,
    Event,
    NodeDiagnosed,
    NodePlanned,
    ProfileReport,
    Verdict,
    VerifyReport,
    seal,
)

POOL = "fleet"
PER_CONNECTION = 25
"""Workers of one host; each host has one connection."""

ANSWERS: dict[str, tuple[type[Event], Event]] = {
    "synthesizer": (NodePlanned, CandidateProposed(source="x" * 1000, sha256="0" * 64, language="cpp", backend="none")),
    "compiler": (CandidateProposed, CandidateCompiled(report=CompileReport(ok=True, language="cpp", compiler="none"))),
    "verifier": (CandidateCompiled, CandidateVerified(report=VerifyReport(verdict=Verdict.correct, isolation="none"))),
    "profiler": (CandidateVerified, CandidateProfiled(report=ProfileReport(verdict=Verdict.correct, isolation="none"))),
    "analyst": (
        CandidateProfiled,
        NodeDiagnosed(verdict=Verdict.correct, fitness=1.0, bottleneck=Bottleneck.memory_traffic, summary="simulated"),
    ),
}
"""By role: what it answers, and with what."""


async def work(bus: Bus, role: str, name: str, fair: bool, step_s: float) -> None:
    """One worker: take, answer, acknowledge. The deliveries it took stand in the answer's ``worker``."""
    input_type, output = ANSWERS[role]
    consumer = bus.consume_round_robin(POOL, role, [input_type]) if fair else bus.consume(POOL, role, [input_type])
    async with consumer:
        async for delivery in consumer:
            cause = delivery.envelope
            if step_s:
                await asyncio.sleep(step_s)
            await bus.publish(
                seal(
                    output,
                    session=cause.session,
                    pool=POOL,
                    node=cause.node,
                    cause=cause.id,
                    agent=role,
                    worker=f"{name}.{delivery.deliveries}",
                    at_ns=time.time_ns(),
                )
            )
            await delivery.ack()


async def serve(url: str, number: int, workers: int, fair: bool, step_s: float) -> None:
    """Run ``workers`` workers, the roles in turn; says a line once all of them wait for work."""
    roles = list(ANSWERS)
    buses = [await Bus.connect(url, name=f"host {number}.{n}") for n in range(-(-workers // PER_CONNECTION))]
    async with asyncio.TaskGroup() as group:
        for n in range(workers):
            role = roles[n % len(roles)]
            group.create_task(work(buses[n // PER_CONNECTION], role, f"p{number}.{role}.{n}", fair, step_s))
        print("ready", flush=True)


if __name__ == "__main__":
    url, number, workers, mode, step_s = sys.argv[1:]
    asyncio.run(serve(url, int(number), int(workers), mode == "fair", float(step_s)))
