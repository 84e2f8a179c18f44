"""Where a candidate is right, of a problem that names one call: perhaps for that call's layout alone.

A file in KernelBench's format makes its inputs in one way, and kernels published for it take pointers as they come
there. Such a kernel answers the question that the file asks. So what it gets wrong on other layouts limits it, and does
not convict it: the verdict says where it is right, and the finished file gives all other calls to the reference. A
problem that names several shapes, or is a function, asks for all layouts.
"""

from math import prod

from ...schemas import CONTIGUOUS, Problem, ProblemFormat, Verdict
from ..processes.arguments import TensorSpec, specs_of
from .inputs.variants import STRIDED, parts
from .judgement import Judged
from .reference_process import Case, ReferenceProcess

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
    inputs = (await host.timed().cases())[0].inputs.items
    if any(not isinstance(value, TensorSpec) and specs_of([value]) for value in inputs):
        return ""  # the finished file looks at tensors that are arguments, not at what others hold
    if error.limit == CONTIGUOUS and not all(map(_is_dense, specs_of(inputs))):
        return ""
    return error.limit


def is_laid_out_anew(case: Case) -> bool:
    """Whether the inputs of ``case`` lie otherwise in memory than the problem's own."""
    return STRIDED in parts(case.kind)


def _is_dense(spec: TensorSpec) -> bool:
    """Whether a tensor is contiguous."""
    expected = tuple(prod(spec.shape[dim + 1 :]) for dim in range(len(spec.shape)))
    return 0 in spec.shape or all(
        size == 1 or stride == dense for size, stride, dense in zip(spec.shape, spec.stride, expected, strict=True)
    )
