"""Checks an author's draft on small inputs of its own: compiled, and right or not. It never uses the judge's inputs."""

from ..processes.messages import Done
from .messages.commands import Release
from .verification import Verification, run_on

CALLS = 2
"""The second call meets what the first one left."""


async def check_small_inputs(verification: Verification) -> None:
    """Call it on inputs of the problem's smallest shape, drawn from a seed that judges nobody.

    Raises:
        Judged: something is wrong.
    """
    case = await verification.host.draft_case()
    for slot in range(CALLS):
        outputs = await verification.run(run_on(case, slot, poison="torch"), case, [])
        result = await verification.compare(slot, case, outputs)
        if not result.ok:
            raise await verification.explain(slot, case, outputs, result, [])
    await verification.check_unchanged_state(case)
    await verification.untrusted.ask(Release(), Done)
