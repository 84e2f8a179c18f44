"""What to try on an accelerator: every action has mutations in the generator for GPUs."""

from collections.abc import Iterator

from ...schemas import Advice, AdviceAction, Bottleneck
from .accelerator import LOW_OCCUPANCY, DeviceLimits, memory_use, spilled

MANY_LAUNCHES = 3
"""Launches a call from which fusing is worth a try whatever the bottleneck."""
SPECIAL = ("xu",)
"""Pipes of transcendental functions and conversions."""

ACCESS = ("lsu", "tex", "adu")
"""Pipes through which memory is asked, not arithmetic done."""

_BY_WAIT = {
    "long_scoreboard": (AdviceAction.vectorize, "more loads under way at once (stages, wider blocks)"),
    "short_scoreboard": (AdviceAction.cheaper_math, "fewer trips through shared memory and special functions"),
    "barrier": (AdviceAction.vectorize, "fewer warps a block wait for each other"),
    "membar": (AdviceAction.simplify, "fewer writes that others wait for"),
    "lg_throttle": (AdviceAction.vectorize, "wider loads and stores are fewer"),
    "mio_throttle": (AdviceAction.vectorize, "wider accesses to shared memory are fewer"),
    "math_pipe_throttle": (AdviceAction.cheaper_math, "less work for the unit that is in use"),
    "gmma": (AdviceAction.vectorize, "other tiles and deeper pipelines keep the matrix units fed"),
    "wait": (AdviceAction.vectorize, "more independent instructions"),
    "no_instruction": (AdviceAction.simplify, "shorter code"),
    "no_instructions": (AdviceAction.simplify, "shorter code"),
}
"""What helps against waiting, by Nsight Compute's reason."""


def advise(limits: DeviceLimits, named: Bottleneck) -> Iterator[Advice]:
    """What to try, each action once. Several things, because a bottleneck named is not a cause proven."""
    actions: set[AdviceAction] = set()
    for advice in _all(limits, named):
        if advice.action not in actions:
            actions.add(advice.action)
            yield advice


def _all(limits: DeviceLimits, named: Bottleneck) -> Iterator[Advice]:
    for kernel, _ in spilled(limits):
        reason = f"{kernel.name} spills {kernel.spill_bytes} bytes a thread"
        yield Advice(action=AdviceAction.more_parallelism, reason=f"{reason}: smaller tiles need fewer", weight=3.0)
        yield Advice(action=AdviceAction.split_kernels, reason=reason, weight=1.5)
        break
    yield from _BY_BOTTLENECK[named](limits)
    launches = limits.profile.launches if limits.profile is not None else limits.compiled
    if launches >= MANY_LAUNCHES and named not in (Bottleneck.overhead, Bottleneck.at_floor):
        yield Advice(action=AdviceAction.reduce_traffic, reason=f"{launches} launches hand data on through memory")


def _bandwidth(limits: DeviceLimits) -> Iterator[Advice]:
    reason = _share(limits)
    yield Advice(
        action=AdviceAction.stream_stores, reason=f"{reason}: what is not read again need not be kept", weight=2.0
    )
    yield Advice(action=AdviceAction.vectorize, reason=f"{reason}: other widths and depths of loads")
    yield Advice(
        action=AdviceAction.less_overhead, reason=f"{reason}: fewer, longer blocks end more evenly", weight=0.5
    )


def _traffic(limits: DeviceLimits) -> Iterator[Advice]:
    reason = _share(limits)
    yield Advice(action=AdviceAction.reduce_traffic, reason=f"{reason}: fewer passes over the same bytes", weight=3.0)
    yield Advice(action=AdviceAction.vectorize, reason=reason)
    yield Advice(action=AdviceAction.stream_stores, reason=reason, weight=0.5)


def _latency(limits: DeviceLimits) -> Iterator[Advice]:
    if limits.waits:
        why, share = limits.waits[0]
        action, how = _BY_WAIT.get(why, (AdviceAction.vectorize, "other block shapes"))
        reason = f"warps spend {share:.0%} of their time on {why.replace('_', ' ')}: {how}"
        yield Advice(action=action, reason=reason, weight=3.0)
    else:
        yield Advice(action=AdviceAction.vectorize, reason="neither memory nor arithmetic is busy", weight=2.0)
    occupancy = limits.main.occupancy_percent if limits.main is not None else None
    if occupancy is not None and occupancy < LOW_OCCUPANCY:
        reason = f"occupancy {occupancy:.0f} %: more and smaller blocks"
        yield Advice(action=AdviceAction.more_parallelism, reason=reason, weight=2.0)
    if limits.may_look_up:
        yield Advice(action=AdviceAction.faster_lookup, reason="dependent loads wait for each other", weight=0.5)


def _compute(limits: DeviceLimits) -> Iterator[Advice]:
    pipes = limits.main.pipes if limits.main is not None else {}
    first = next(iter(pipes), "")
    reason = f"the {first} pipe is in use {pipes[first]:.0f} %" if first else "arithmetic outweighs the bytes"
    special = first in SPECIAL or (not first and limits.transcendental)
    cheaper = Advice(action=AdviceAction.cheaper_math, reason=reason, weight=3.0 if special else 1.0)
    wider = Advice(action=AdviceAction.vectorize, reason=f"{reason}: other widths and tiles", weight=2.0)
    yield from (wider, cheaper) if first in ACCESS else (cheaper, wider)


def _parallelism(limits: DeviceLimits) -> Iterator[Advice]:
    blocks = limits.main.blocks_per_multiprocessor if limits.main is not None else None
    reason = "multiprocessors stand idle" if blocks is None else f"{blocks:.2f} blocks a multiprocessor"
    yield Advice(action=AdviceAction.more_parallelism, reason=f"{reason}: split the work further", weight=4.0)
    yield Advice(action=AdviceAction.vectorize, reason=reason, weight=0.5)


def _overhead(limits: DeviceLimits) -> Iterator[Advice]:
    reason = f"{limits.median_us:.0f} us a call"
    if limits.profile is not None and limits.profile.gap_us is not None:
        reason += f", {limits.profile.launches} launches, {limits.profile.gap_us:.0f} us between them"
    yield Advice(action=AdviceAction.less_overhead, reason=reason, weight=3.0)
    yield Advice(action=AdviceAction.reduce_traffic, reason=f"{reason}: what is fused is not launched", weight=2.0)


def _at_floor(limits: DeviceLimits) -> Iterator[Advice]:
    yield Advice(action=AdviceAction.stream_stores, reason="near the floor: little is left", weight=0.5)


def _share(limits: DeviceLimits) -> str:
    if limits.main is not None and limits.counted:
        return f"memory at {memory_use(limits.main):.0f} % of its peak"
    return f"{limits.fraction:.0%} of the roofline" if limits.fraction is not None else "memory bound"


_BY_BOTTLENECK = {
    Bottleneck.memory_bandwidth: _bandwidth,
    Bottleneck.memory_traffic: _traffic,
    Bottleneck.latency: _latency,
    Bottleneck.compute: _compute,
    Bottleneck.parallelism: _parallelism,
    Bottleneck.overhead: _overhead,
    Bottleneck.at_floor: _at_floor,
}
