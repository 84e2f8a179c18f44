"""Validation within a session's minutes: it comes before the session, so no event ends it."""

import asyncio
import time
from collections.abc import Callable

from ..hardware.device import Device
from ..hardware.processes.machine_load import load_text
from ..schemas import Problem, ProblemError, ProblemFacts

LEEWAY_S = 15.0
"""How long validation may go on beyond the minutes: where it ends soon there is a session that says what it lacked."""
TELL_S = 10.0
"""How often is told that it still goes on."""
LEAST_SPENT_S = 5.0
"""Before validation, from which on it is said."""


async def validated(
    device: Device,
    problem: Problem,
    minutes: float | None,
    began: float | None,
    on_notice: Callable[[str], None] = lambda _: None,
) -> ProblemFacts:
    """The facts of ``problem``, found out within ``minutes``, or soon after; they began at ``began`` (None: now).

    ``on_notice`` is told what happens, and every :data:`TELL_S` seconds that it still does.

    Raises:
        ProblemError: it cannot be searched on this pool, or not within its minutes; one sentence with the way out.
    """
    spent_s = 0.0 if began is None else time.monotonic() - began
    text = f"validating {problem.name}: importing, checking, capturing"
    on_notice(text)
    telling = asyncio.create_task(_tell(text, on_notice), name="validation")
    try:
        async with asyncio.timeout(None if minutes is None else max(0.0, 60 * minutes + LEEWAY_S - spent_s)) as limit:
            return await device.validate_problem(problem)
    except TimeoutError:
        if minutes is None or not limit.expired():
            raise
        raise ProblemError(
            f"{problem.name}.py was still being validated when its {60 * minutes:.0f} s were over"
            f"{_before_text(spent_s)}{load_text()}; give it more (--minutes {2 * minutes:g}), or use smaller shapes"
        ) from None
    finally:
        telling.cancel()


def _before_text(spent_s: float) -> str:
    """What went by before: the tracing of a live module, and of the machine what is measured once."""
    return f" ({spent_s:.0f} s went by before validation)" if spent_s >= LEAST_SPENT_S else ""


async def _tell(text: str, on_notice: Callable[[str], None]) -> None:
    """How long it takes is all that is known here: the process that validates answers once, at the end."""
    began = time.monotonic()
    while True:
        await asyncio.sleep(TELL_S)
        on_notice(f"{text}; {time.monotonic() - began:.0f} s so far{load_text()}")
