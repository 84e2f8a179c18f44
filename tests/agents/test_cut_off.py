"""A search that is cut off, or whose problem takes too long to validate, ends."""

import asyncio
import os
import re
import time
from typing import cast

import pytest

import given
from kernelswarm.agents.registry import ROLES
from kernelswarm.bus import Bus
from kernelswarm.hardware.device import Device
from kernelswarm.schemas import DEADLINE, Event, Problem, ProblemError, ProblemFacts, SessionClosed, StopRequested
from kernelswarm.sessions import validation
from kernelswarm.sessions.search import Search
from kernelswarm.sessions.swarm import Swarm
from kernelswarm.sessions.validation import LEEWAY_S, validated

SESSION = "rmsnorm-abcde"


class Worker:
    def __init__(self, role: str) -> None:
        self.agent = self
        self.role = role


class ServesItself:
    workers = tuple(map(Worker, ROLES))


class Slow:
    async def validate_problem(self, problem: Problem) -> ProblemFacts:
        await asyncio.sleep(60)
        raise AssertionError


def closed_after(*stops: str, reason: str = "minutes") -> Search:
    """A search in which nothing was timed, after it was asked to stop."""
    search = Search(SESSION, "bare", cast(Bus, None), cast(Swarm, ServesItself()), "", 0)
    events: list[Event] = [given.opened(minutes=4.0), *(StopRequested(reason=stop) for stop in stops)]
    for number, event in enumerate([*events, SessionClosed(reason=reason)]):
        search.graph.apply(given.envelope_of(event, cause=str(number), session=SESSION), event)
    return search


def test_who_is_cut_off_after_its_minutes_waits_for_no_baselines() -> None:
    assert closed_after("minutes").awaits_baselines
    assert not closed_after("minutes", "interrupted").awaits_baselines
    assert not closed_after("minutes", DEADLINE).awaits_baselines


def test_a_benchmark_waits_for_no_baselines() -> None:
    search = closed_after("minutes", reason="budget")
    assert search.awaits_baselines
    search.wants_baselines = False
    assert not search.awaits_baselines


async def test_a_validation_that_goes_on_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[str] = []
    enough = asyncio.Event()

    def notice(text: str) -> None:
        notices.append(text)
        if len(notices) == 3:
            enough.set()

    class Quick:
        async def validate_problem(self, _: Problem) -> ProblemFacts:
            await enough.wait()
            return given.facts()

    monkeypatch.setattr(validation, "TELL_S", 0.01)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    facts = await validated(cast(Device, Quick()), given.problem(), None, None, notice)
    assert facts == given.facts()
    first = f"validating {given.problem().name}: importing, checking, capturing"
    assert notices[:2] == [first, f"{first}; 0 s so far"]
    count = len(notices)
    await asyncio.sleep(0.05)
    assert len(notices) == count, "it says nothing once validation has ended"


async def test_on_a_busy_machine_the_load_is_named_and_what_went_by_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (31.2, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    began = time.monotonic() - 6.0 - LEEWAY_S
    sentence = "its 6 s were over (21 s went by before validation), with 31 programs at work on 2 cores; give it more"
    with pytest.raises(ProblemError, match=re.escape(sentence)):
        await validated(cast(Device, Slow()), given.problem(), 0.1, began)


async def test_validation_ends_with_the_minutes() -> None:
    began = time.monotonic() - 6.0 - LEEWAY_S
    with pytest.raises(ProblemError, match=r"still being validated when its 6 s were over.*--minutes 0\.2"):
        await validated(cast(Device, Slow()), given.problem(), 0.1, began)
