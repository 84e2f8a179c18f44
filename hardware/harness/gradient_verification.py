"""Verifies a candidate's gradients, if it gives some. The supervisor's side (docs/judge/gradients.md)."""

from typing import TYPE_CHECKING

from ...schemas import Verdict
from . import judgement
from .inputs.case import Case
from .judgement import Judged, explain_numbers, judged, wrong
from .messages.commands import Differentiate, Ran

if TYPE_CHECKING:
    from .verification import Verification

OWN, REFERENCE = "own", "reference"
"""Who differentiates a candidate (:attr:`.VerifyReport.gradients`)."""


async def check_gradients(verification: "Verification") -> str:
    """Call the candidate once more, with gradients on, and compare the gradients that it gives.

    At each timed shape, too: another kernel may compute there. No further once it has no gradients at one: a user gets
    the reference's everywhere then.

    Returns:
        ``own`` if they are right; ``reference`` if it raises then, or gives no graph, at some shape; empty if the
        reference has no gradients that could be compared.

    Raises:
        Judged: they are wrong.
    """
    whose = ""
    async for case in verification.host.gradient_cases():
        whose = await _whose(verification, case)
        if whose == REFERENCE:
            break
    return whose


async def _whose(verification: "Verification", case: Case) -> str:
    """Who differentiates the candidate in ``case``.

    Raises:
        Judged: its gradients are wrong.
    """
    command = Differentiate(slot=0, inputs=case.inputs, followed=case.followed)
    try:
        ran, _ = await verification.untrusted.ask(command, Ran, (case.file,), case=case)
    except Judged as error:
        if error.verdict is Verdict.runtime_error:
            return REFERENCE
        raise
    if ran.touched:
        message = f"with gradients on, it changed what is not its own: {', '.join(ran.touched)}"
        raise judged(Verdict.tampering, message, case=case)
    judgement.check_form(ran.outputs, case.outputs, case)
    result = await verification.compare(0, case, ran.outputs)
    # Case results are of outputs.
    verification.results.pop()
    if not result.ok:
        message = explain_numbers(result, case.labels)
        raise wrong(Verdict.wrong_gradients, message, case, result, inputs=case.kind)
    return OWN
