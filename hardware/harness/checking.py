"""Checks an author's draft on small inputs of its own: compiled, and right or not. It never uses the judge's inputs."""

from ..processes.messages import Done
from .inputs.variants import in_words
from .messages.commands import Release
from .verification import Verification, run_on

CALLS = 2
"""The second call meets what the first one left."""


async def check_small_inputs(verification: Verification) -> None:
    """Call it on inputs of the problem's smallest shape, drawn from a seed that judges nobody.

    Small ones come with odd strides, too, and with infinite, NaN and tiny numbers among them.

    Raises:
        Judged: something is wrong.
    """
    own, *changed = await verification.host.draft_cases()
    for slot in range(CALLS):
        outputs = await verification.run(run_on(own, slot, poison="torch"), own, [])
        result = await verification.compare(slot, own, outputs)
        if not result.ok:
            raise await verification.explain(slot, own, outputs, result, [])
    await verification.check_unchanged_state(own)
    for case in changed:
        with verification.labelled(case, f"on {in_words(case.kind)} inputs"):
            draw = await verification.draw_on(case, CALLS)
            if not draw.result.ok:
                raise await verification.explain(CALLS, case, draw.outputs, draw.result, [])
    await verification.untrusted.ask(Release(), Done)
