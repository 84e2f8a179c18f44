"""Does a kernel keep answers? Inputs come again and again in an ordinary process; here each comes once. Blocking.

Who keeps answers by what inputs hold, and gives copies of them, is as fast as a copy in all other batches. The judge's
input sets come once each, but of short calls its other figures leave more room (docs/judge/timing-cpu.md).
"""

import secrets
from statistics import median

from .agreement import difference
from .process import Missing
from .rounds import Runner

MOST_CALLS = 2048
MOST_BYTES = 6 << 20
"""Inputs and outputs of a batch: what is written there for the first time costs little beside the calls."""
LEAST_NS = 4_000_000
"""Where the calls for which there is room take less, nothing is said: a busy machine disturbs a short batch too much,
above all of several threads."""
TRIES = 8
"""On a busy machine three of four are slow for that, candidates' and eager's alike; one that is not is enough."""
MOST_SHARE = 1.4
"""A call on unseen inputs may take so many times what others take, and as many times as eager's takes more there."""
MOST_OF_EAGER = 1.5
"""What eager takes more there, for want of warm caches, is no more than this: the rest is a disturbance."""


def check_unseen(eager: Runner, candidate: Runner, call_bytes: int, seed: int, bound: float) -> None:
    """Time the candidate on inputs that come once, beside eager.

    Args:
        eager: Its process has the same inputs.
        candidate: What was timed.
        call_bytes: Inputs and outputs of one call.
        seed: Of the elements that are compared.
        bound: The judge's error bound.

    Raises:
        Missing: it is slow there, or wrong.
    """
    count = min(MOST_CALLS, MOST_BYTES // max(call_bytes, 1))
    if count * median(candidate.samples) < LEAST_NS:
        return
    shares: list[float] = []
    for _ in range(TRIES):
        first, call = 1 + secrets.randbits(47), secrets.randbelow(count)
        slower, outputs = [], []
        for runner in (eager, candidate):
            ns = runner.process.time(count, runner.seconds, warm=runner.warm, unseen=first) / count
            outputs.append(runner.process.unseen(call, seed, runner.seconds))
            # What slows the machine by now slows what comes again as well.
            again = runner.process.time(count, runner.seconds, warm=runner.warm) / count
            slower.append(ns / max(again, median(runner.samples)))
            runner.process.wait_until_idle()
        if clause := difference(*outputs, bound=bound):
            raise Missing(f"the finished file does not give on unseen inputs what eager gives: {clause}")
        shares.append(slower[1] / max(1.0, min(slower[0], MOST_OF_EAGER)))
        if shares[-1] <= MOST_SHARE:
            return
    raise Missing(f"the finished file keeps answers: a call on unseen inputs takes {min(shares):.1f} times as long")
