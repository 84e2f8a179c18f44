"""Decides whether a wrong candidate is right on contiguous or finite inputs alone, for problems that name one call.

A file in KernelBench's format makes its inputs in one way, and kernels published for it take pointers as they come
there, and a maximum of two numbers that forgets NaN. Such a kernel answers the question that the file asks. So what it
gets wrong on other layouts, or on numbers that are not finite, limits it and does not convict it: the verdict says
where it is right. The finished file gives other layouts to the reference. A problem that names several shapes, or is a
function, asks for all inputs; but where it sets ``finite_inputs``, no candidate is called on others
(:mod:`.reference.validity`), and every one has that limit.
"""

from math import isfinite, prod

from ...schemas import CONTIGUOUS, FINITE, Problem, ProblemFormat, Verdict
from ..processes.arguments import TensorSpec, specs_of
from .inputs.case import Case
from .inputs.variants import SPECIAL, STRIDED, allows_nonfinite, parts
from .judgement import Judged
from .reference_process import ReferenceProcess

_WRONG = (
    Verdict.wrong_numbers,
    Verdict.lower_precision,
    Verdict.incomplete_output,
    Verdict.wrong_shape,
    Verdict.runtime_error,
    Verdict.crash,
)
"""What a call may end with that a kernel was not written for. All else is a fault wherever it happens."""


async def limit_of(error: Judged, host: ReferenceProcess, problem: Problem) -> str:
    """The limit under which this does not count, or nothing: then it convicts."""
    names_one_call = problem.format is ProblemFormat.kernelbench and len(await host.shapes()) == 1
    if not names_one_call or error.verdict not in _WRONG:
        return ""
    if error.limit == FINITE and (error.verdict is not Verdict.wrong_numbers or _is_finite(error.evidence.expected)):
        return ""  # a crash on NaN, or wrong numbers where the answer is finite: the finished file would have it, too
    inputs = (await host.timed().cases())[0].inputs.items
    if any(not isinstance(value, TensorSpec) and specs_of([value]) for value in inputs):
        return ""  # the finished file looks at tensors that are arguments, not at what others hold
    if error.limit == CONTIGUOUS and not all(map(_is_dense, specs_of(inputs))):
        return ""
    return error.limit


def further_limit(case: Case, limits: tuple[str, ...]) -> str:
    """To which inputs a candidate is limited that fails on ``case``, beside ``limits``; empty: to none of a kind."""
    if CONTIGUOUS not in limits and STRIDED in parts(case.kind):
        return CONTIGUOUS
    return FINITE if FINITE not in limits and allows_nonfinite(case.kind) else ""


def way_out(case: Case, expected: str) -> list[str]:
    """What the user may declare, if that makes the failure on ``case`` none; ``expected`` as in the evidence."""
    only_special = {*parts(case.kind)} <= {*SPECIAL} or not _is_finite(expected)
    if not allows_nonfinite(case.kind) or not only_special:
        return []
    return ["if its inputs are always finite, set `finite_inputs = True` in the problem file"]


def _is_finite(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return True


def _is_dense(spec: TensorSpec) -> bool:
    """Whether a tensor is contiguous."""
    expected = tuple(prod(spec.shape[dim + 1 :]) for dim in range(len(spec.shape)))
    return 0 in spec.shape or all(
        size == 1 or stride == dense for size, stride, dense in zip(spec.shape, spec.stride, expected, strict=True)
    )
