"""How tests wait: for a condition, up to a limit that even a machine ten times slower does not reach."""

import asyncio
import select
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

LIMIT_S = 60.0
"""Seconds after which something counts as hanging. On a good day nobody waits for it."""

LONG_S = 600.0
"""The same for whole searches and whole fleets."""

REDELIVERY_S = 600.0
"""For consumers: nothing comes again by itself while a test waits, so what comes again was handed back."""

_PAUSE_S = 0.02


async def within(awaitable: Awaitable[T], seconds: float = LIMIT_S) -> T:
    """What ``awaitable`` comes to, or TimeoutError."""
    return await asyncio.wait_for(awaitable, seconds)


async def eventually(ask: Callable[[], Awaitable[T]], expected: Any) -> T:
    """Ask again and again until the answer is ``expected``; the last answer, for an assertion to show."""
    deadline = time.monotonic() + LIMIT_S
    while (answer := await ask()) != expected and time.monotonic() < deadline:  # noqa: ASYNC110 - whoever is asked
        await asyncio.sleep(_PAUSE_S)
    return answer


def again_until(expected: Any, ask: Callable[[], T]) -> T:
    """As :func:`eventually`, for a question that blocks."""
    deadline = time.monotonic() + LIMIT_S
    while (answer := ask()) != expected and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    return answer


def has_ended(process: int) -> bool:
    """Whether the process behind a ``pidfd`` ends. Not by ``select``, which knows the first 1,024 descriptors alone."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(LIMIT_S * 1000))
