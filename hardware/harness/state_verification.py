"""Verifies the state that a candidate's calls leave. The supervisor's side."""

from collections.abc import Sequence

from ...schemas import Evidence, Verdict
from .inputs.case import Case
from .judgement import Judged, subscript
from .messages.commands import UNMEASURABLE, Compared, Expected, Output
from .messages.state import INPUT, StateChecked, StateEntry, in_words


def check_form(outputs: Sequence[Output], case: Case) -> None:
    """Type and shape of what it leaves of the state; ``outputs`` are all that it handed over.

    Raises:
        Judged: ``wrong_state``.
    """
    for entry, got, reference in zip(case.state, outputs[case.returned :], case.outputs[case.returned :], strict=True):
        if (got.kind, got.dtype, got.shape) != (reference.kind, reference.dtype, reference.shape):
            expected, left = _form(reference), _form(got)
            message = f"{_name(entry)} is {left}{case.when}, the reference leaves {expected}"
            raise wrong_state(message, case, expected=expected, got=left)


def explained(result: Compared, case: Case, when: str = "") -> Judged:
    """The verdict on state that is not right: the worst element."""
    entry = case.state[result.output - case.returned]
    message = (
        f"{_name(entry, result.element)} is {result.got}{when or case.when}, the reference leaves {result.expected}"
    )
    if 0 < result.error < UNMEASURABLE and result.bound > 0:
        message += f": error {result.error:.3g}, allowed {result.bound:.3g}"
    return wrong_state(message, case, element=result.element, expected=result.expected, got=result.got)


def wrong_state(
    message: str, case: Case, *, element: tuple[int, ...] = (), expected: str = "", got: str = ""
) -> Judged:
    """The verdict, with what to look at."""
    evidence = Evidence(message=message, shape=case.shape, seed=case.seed, element=element, expected=expected, got=got)
    return Judged(Verdict.wrong_state, evidence)


def check_unchanged(checked: StateChecked, case: Case, when: str = "") -> None:
    """What the reference leaves alone must be as it was; ``case`` is the call before.

    Raises:
        Judged: ``wrong_state``.
    """
    if checked.message:
        message = f"{checked.message} ({(when or case.when).strip()})"
        raise wrong_state(message, case, expected=checked.expected, got=checked.got)


def _name(entry: StateEntry, element: tuple[int, ...] = ()) -> str:
    if entry.kind == INPUT:
        return f"input {entry.name}{subscript(element)}, which the reference writes,"
    return f"{in_words(entry.kind)} {entry.name}{subscript(element)}"


def _form(output: Output | Expected) -> str:
    if output.kind == "none":
        return "None or missing"
    return f"a {output.kind} of {output.dtype} with shape {list(output.shape)}" if output.dtype else f"a {output.kind}"
