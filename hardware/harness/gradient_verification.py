"""Are a candidate's gradients right, where it has some? The supervisor's side (docs/judge.md)."""

from typing import TYPE_CHECKING

from ...schemas import Evidence, Verdict
from . import judgement
from .judgement import Judged, judged
from .messages.commands import UNMEASURABLE, Compared, Differentiate, Ran
from .reference_process import Case

if TYPE_CHECKING:
    from .verification import Verification

OWN, REFERENCE = "own", "reference"
"""Who differentiates a candidate (:attr:`.VerifyReport.gradients`)."""


async def check_gradients(verification: "Verification") -> str:
    """Call the candidate once more, with gradients on, and compare the gradients that it gives.

    Where several shapes are timed it is called at each of them: another kernel may compute there.

    Returns:
        ``own`` if they are right; ``reference`` if it raises then, or gives no graph, at some shape; empty if the
        reference has no gradients that could be compared.

    Raises:
        Judged: they are wrong.
    """
    whose = {await _whose(verification, case) for case in await verification.host.gradient_cases()}
    return REFERENCE if REFERENCE in whose else OWN if whose else ""


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
        raise judged(Verdict.tampering, message, shape=case.shape, seed=case.seed)
    judgement.check_form(ran.outputs, case.outputs, case.shape, case.seed)
    result = await verification.compare(0, case, ran.outputs)
    # Case results are of outputs.
    verification.results.pop()
    if not result.ok:
        raise _wrong(case, result)
    return OWN


def _wrong(case: Case, result: Compared) -> Judged:
    subscript = f"[{', '.join(map(str, result.element))}]" if result.element else ""
    message = f"{case.labels[result.output]} is wrong: {subscript or 'it'} is {result.got}, expected {result.expected}"
    if result.error < UNMEASURABLE:
        message += (
            f": error {result.error:.3g}, allowed {result.bound:.3g} (the reference's own is "
            f"{result.reference_error:.3g})"
        )
    evidence = Evidence(
        message=message,
        shape=case.shape,
        seed=case.seed,
        output=result.output,
        element=result.element,
        expected=result.expected,
        got=result.got,
        inputs=case.kind,
    )
    return Judged(Verdict.wrong_gradients, evidence)
