"""Turns the outcome of a candidate's process (a failure, a death, an error) into a verdict with evidence."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from ...schemas import CompileReport, Evidence, Verdict
from ..processes.messages import Ended, Failure
from ..processes.worker import Worker, describe_end
from .inputs.case import Case
from .inputs.sizes import overlaps
from .messages.commands import UNMEASURABLE, Compared, Expected, Output
from .tensors.bounds import ABSOLUTE

_SHUT_OFF = re.compile(r"PermissionError|Operation not permitted|Read-only file system")
_WALLS = "; a judged process starts no program and writes in its own folder alone: compile while the file is imported"
_MEMORY = re.compile(r"bad_alloc|annot allocate memory|can't allocate memory|MemoryError|out of memory")

FILLS = ("nan", *(str(2**bits - 1) for bits in (8, 15, 16, 31, 32, 63, 64)))
"""What torch fills fresh memory with, as evidence has it; of int8 it is malloc's byte, too."""
MOST_CHARACTERS = 16_000
"""Of what a verdict quotes."""

_VERDICTS = {
    "form": Verdict.wrong_type,
    "load": Verdict.load_error,
    "memory": Verdict.out_of_memory,
    "state": Verdict.wrong_state,
}


class Judged(Exception):
    """The verdict has fallen and it is not ``correct``."""

    def __init__(self, verdict: Verdict, evidence: Evidence, *, limit: str = "") -> None:
        """With ``limit``: under which it would not count (:mod:`.limits`)."""
        self.verdict, self.limit = verdict, limit
        # Names and text come from the candidate's process: as long as it likes.
        self.evidence = replace(evidence, message=_clipped(evidence.message), log=_clipped(evidence.log))
        super().__init__(self.evidence.message)


def _clipped(text: str) -> str:
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def judged(
    verdict: Verdict, message: str, *, case: Case | None = None, output: int | None = None, log: str = ""
) -> Judged:
    """A verdict without an element to point at; ``case`` is what it was called on."""
    shape, seed = ("", None) if case is None else (case.shape, case.seed)
    return Judged(verdict, Evidence(message=message, shape=shape, seed=seed, output=output, log=log))


def wrong(verdict: Verdict, message: str, case: Case, result: Compared, *, inputs: str = "") -> Judged:
    """A verdict with the element to look at, and the shape that it is wrong at; ``inputs``: which variant of them."""
    suffix = "" if case.shape in message else f", at shape {case.shape}"
    return Judged(
        verdict,
        Evidence(
            message=f"{message}{suffix}",
            shape=case.shape,
            seed=case.seed,
            output=result.output,
            element=result.element,
            expected=result.expected,
            got=result.got,
            inputs=inputs,
        ),
    )


def explain_numbers(result: Compared, labels: Sequence[str] = ()) -> str:
    """The worst element in words; ``labels``: what each output is, where there are gradients among them."""
    name = labels[result.output] if labels else f"output {result.output}"
    message = f"{name}{subscript(result.element)} is {result.got}"
    message += f", expected {result.expected}"
    if result.error >= UNMEASURABLE:
        many = f", one of {result.finite} elements that are finite where the reference is not"
        return message + many * (result.finite > 1)
    if result.bound == 0:
        return f"{message}; such values have to be equal"
    own = f"the reference's own is {result.reference_error:.3g}"
    if result.bound >= ABSOLUTE:  # several of them where calls are timed
        return f"{message}: {result.error:.3g} times as far off as the problem's atol and rtol allow ({own})"
    return f"{message}: error {result.error:.3g} of |expected| + rms, allowed {result.bound:.3g} ({own})"


def subscript(element: Sequence[int]) -> str:
    """``[0, 3]``; empty for a number."""
    return f"[{', '.join(map(str, element))}]" if element else ""


def failed(failure: Failure, case: Case | None, printed: str) -> Judged:
    """It raised, does not load, or wants too much memory."""
    verdict = _VERDICTS.get(failure.kind, Verdict.runtime_error)
    message = failure.message + (_WALLS if _SHUT_OFF.search(failure.message) else "")
    return judged(verdict, message, case=case, log=failure.log or printed)


def died(ended: Ended, worker: Worker, case: Case | None) -> Judged:
    """Its process ended."""
    how = describe_end(ended)
    if ran_out_of_memory(worker.output):
        message = f"the process ran out of memory ({how})"
        return judged(Verdict.out_of_memory, message, case=case, log=worker.output)
    return judged(Verdict.crash, f"the process {_was(how)}", case=case, log=f"{how}\n{worker.output}")


def ran_out_of_memory(printed: str) -> bool:
    """Whether the end of a process's output says that this was why."""
    return _MEMORY.search(printed) is not None


def late(seconds: float, step: str, case: Case | None, printed: str) -> Judged:
    """It took too long."""
    return judged(Verdict.timeout, f"{step} did not end within {seconds:g} s", case=case, log=printed)


def check_apart(outputs: tuple[Output, ...], earlier: tuple[Output, ...], case: Case, earlier_seed: int) -> None:
    """No output of a call on ``case`` may lie in the memory of those of an ``earlier`` call, which are still in use.

    Raises:
        Judged: ``stale_output``.
    """
    for index, output in enumerate(outputs):
        for earlier_output in earlier:
            if max(output.begin, earlier_output.begin) < min(output.end, earlier_output.end):
                message = (
                    f"output {index} lies in the memory of an output of an earlier call (seed {earlier_seed}) that is "
                    "still in use"
                )
                raise judged(Verdict.stale_output, message, case=case, output=index)


def check_form(outputs: tuple[Output, ...], expected: tuple[Expected, ...], case: Case) -> None:
    """Number, type, dtype and shape of the outputs, and whether each element has memory of its own.

    Raises:
        Judged: ``wrong_type`` or ``wrong_shape``.
    """
    if len(outputs) != len(expected):
        message = f"it returns {len(outputs)} outputs, the reference {len(expected)}"
        raise judged(Verdict.wrong_type, message, case=case)
    for index, (got, reference) in enumerate(zip(outputs, expected, strict=True)):
        if got.kind != reference.kind or got.dtype != reference.dtype:
            message = (
                f"output {index} is {_kind(got.type_name, got.dtype)}, not {_kind(reference.kind, reference.dtype)}"
            )
            raise judged(Verdict.wrong_type, message, case=case, output=index)
        if got.shape != reference.shape:
            message = f"output {index} has shape {list(got.shape)}, the reference's has {list(reference.shape)}"
            raise judged(Verdict.wrong_shape, message, case=case, output=index)
        if overlaps(got.shape, got.stride) and not reference.overlaps:
            message = (
                f"elements of output {index} share memory (strides {list(got.stride)}), and those of the reference do "
                "not: nobody could write into it; return contiguous()"
            )
            raise judged(Verdict.wrong_shape, message, case=case, output=index)


def _kind(name: str, dtype: str) -> str:
    return f"a {name} of {dtype}" if dtype else f"a {name}"


def _was(how: str) -> str:
    return f"was {how}" if how.startswith("killed") else how


def not_compiled(report: CompileReport) -> Evidence:
    """Evidence for a candidate that its compiler refused."""
    errors = (diagnostic.message for diagnostic in report.diagnostics if diagnostic.severity == "error")
    return Evidence(message=next(errors, "it did not compile"), log=report.log)
