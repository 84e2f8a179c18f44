"""Short measurements, for tests that ask anything but how well it measures: each search would wait a minute for it.

As a program: the command line that measures like this, ``python brief.py swarm --pool cpu …``; with
``BRIEF=after-judging`` the judge takes its time, and only what follows its verdict is brief.
"""

import math
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import pytest

from kernelswarm.agents import profiler
from kernelswarm.agents.planner.state import NOISE
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.timing import interleaved
from kernelswarm.hardware.harness.timing.effort import USUAL, Effort
from kernelswarm.hardware.ordinary import host, rounds
from kernelswarm.schemas import ContractProperty, Interval

PLAN = interleaved.Plan(processes=2, least_rounds=4, most_rounds=40, seconds=0.05, width=0.01, is_thorough=True)


@contextmanager
def measurements() -> Iterator[None]:
    """Finalists are measured briefly while the body runs."""
    with pytest.MonkeyPatch.context() as patch:
        _shorten(patch)
        yield


async def _no_contract(device: Device, source: str, problem: object = None) -> tuple[ContractProperty, ...]:
    return ()


def _in_few_processes(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A brief measurement decides nothing, and the planner would have it done again in 8 processes, then in 16."""

    async def measure(self: Device, *arguments: Any, effort: Effort = USUAL, **options: Any) -> Any:
        return await method(self, *arguments, effort=replace(effort, processes=0), **options)

    return measure


def _decided(intervals: Sequence[Interval], process: float, run: float) -> Interval:
    """Narrow: finalists between win and no win are timed again, up to twice, by processes that import torch anew."""
    median = geometric_mean(interval.median for interval in intervals)
    return Interval(median=median, low=median / NOISE, high=median * NOISE)


def _shorten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Device, "profile", _in_few_processes(Device.profile))
    patch.setattr(interleaved, "in_a_new_run", _decided)
    _shorten_what_follows(patch)
    patch.setattr(interleaved, "THOROUGH", PLAN)


def _shorten_what_follows(patch: pytest.MonkeyPatch) -> None:
    """Of the finalists the first one alone is timed in an ordinary process, and nobody runs the contract suite.

    The judge has half of its processes, each of which stands all checks.
    """
    patch.setattr(interleaved, "THOROUGH", replace(interleaved.THOROUGH, processes=2))
    patch.setattr(profiler, "LEAST_SPEEDUP", math.inf)
    patch.setattr(Device, "contract", _no_contract)
    patch.setattr(Device, "ordinary", _in_few_processes(Device.ordinary))
    patch.setattr(host, "PROCESSES", 1)
    patch.setattr(rounds, "LEAST_ROUNDS", 2)
    patch.setattr(rounds, "SECONDS", 0.05)


if __name__ == "__main__":
    from kernelswarm.cli.__main__ import main

    shorten = _shorten_what_follows if os.environ.get("BRIEF") == "after-judging" else _shorten
    shorten(pytest.MonkeyPatch())
    main()
