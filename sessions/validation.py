"""Validation within a session's minutes: it comes before the session, so no event ends it."""

import asyncio
import time

from ..hardware.device import Device
from ..hardware.processes.machine_load import load_text
from ..schemas import Problem, ProblemError, ProblemFacts

LEEWAY_S = 15.0
"""How long validation may go on beyond the minutes: where it ends soon there is a session that says what it lacked."""


async def validated(device: Device, problem: Problem, minutes: float | None, began: float | None) -> ProblemFacts:
    """The facts of ``problem``, found out within ``minutes``, or soon after; they began at ``began`` (None: now).

    Raises:
        ProblemError: it cannot be searched on this pool, or not within its minutes; one sentence with the way out.
    """
    spent_s = 0.0 if began is None else time.monotonic() - began
    try:
        async with asyncio.timeout(None if minutes is None else max(0.0, 60 * minutes + LEEWAY_S - spent_s)) as limit:
            return await device.validate_problem(problem)
    except TimeoutError:
        if minutes is None or not limit.expired():
            raise
        raise ProblemError(
            f"{problem.name}.py was still being validated when its {60 * minutes:.0f} s were over{load_text()}; give "
            f"it more (--minutes {2 * minutes:g}), or use smaller shapes"
        ) from None
