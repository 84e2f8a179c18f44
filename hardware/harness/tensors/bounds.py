"""Error bounds of candidates. Pure.

The measure of an element is ``|got - oracle| / (|oracle| + rms(oracle))``: relative where the value is large, relative
to the typical value where it is small or cancels. A candidate may be :data:`MULTIPLE` times as wrong as the reference
is in its own precision, or as a few units in the last place of the output's dtype, whichever is more. Another order of
summation stays well inside; a step done in a lower precision (a fp16 or tf32 product in a fp32 problem is wrong by
5e-4, the bound being about 2e-6) does not.

A problem's ``tolerance`` overrides this: a number is the bound in the same measure; ``{"atol": a, "rtol": r}`` asks for
``|got - oracle| <= a + r * |oracle|``, and the error is then reported in units of that sum (bound 1).
"""

import statistics
from collections.abc import Sequence

from ....schemas import ProblemError, Schema

ABSOLUTE = 1.0
"""Bound of a problem with ``atol`` and ``rtol``: errors are in units of what both allow."""
MULTIPLE = 4.0
"""K: how many times the reference's own error is allowed."""

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Distance from 1 to the next number."""

TF32_ROUNDING = 2.0**-11
"""How far a number moves at most that is rounded to TF32."""
COARSER = TF32_ROUNDING / 2.0**-24
"""How many times as far as in fp32 that is."""

LEAST_ERROR = {"float64": 4.0, "float32": 4.0, "float16": 0.5, "bfloat16": 0.5}
"""The reference's error counts as at least so many epsilons. fp32 results come from sums whose order may change; 16-bit
results are computed wider and rounded once, which is wrong by half an epsilon."""

OWN_PRECISION = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Bound where the reference cannot run in float64 (or is float64 already) and is compared with itself."""

SHAKES = 4
"""How often inputs are moved by an epsilon to see how far the answer moves. One movement may be small by chance: that
of a single number was less than a tenth of the usual one in 8 of 100 draws."""
STEADY = 8.0
"""The farthest movement is at most this many times the median one, or what it says of a bound is chance."""
MOST_EPSILONS = 4096.0
MOST_ERROR = 0.05
"""A reference that loses more than three digits, or is wrong by more than a twentieth, proves nothing."""

_PARTS = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}


class Tolerance(Schema, frozen=True, kw_only=True):
    """What a problem file asks for; all None if it says nothing."""

    relative: float | None = None
    atol: float | None = None
    rtol: float | None = None

    @property
    def is_given(self) -> bool:
        """Whether the problem says anything."""
        return self.relative is not None or self.is_absolute

    @property
    def is_absolute(self) -> bool:
        """Whether errors are in units of ``atol + rtol * |oracle|``."""
        return self.atol is not None or self.rtol is not None


def read_tolerance(value: object) -> Tolerance:
    """A problem file's ``tolerance``.

    Raises:
        ProblemError: it is neither a number nor a dictionary of ``atol`` and ``rtol``.
    """
    if value is None:
        return Tolerance()
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return Tolerance(relative=float(value))
    if isinstance(value, dict) and value and set(value) <= {"atol", "rtol"}:
        parts = {key: float(part) for key, part in value.items()}
        if all(0 <= part < float("inf") for part in parts.values()):
            return Tolerance(atol=parts.get("atol", 0.0), rtol=parts.get("rtol", 0.0))
    raise ProblemError(
        f"tolerance = {value!r} is not understood; give a number (relative error) or a dictionary of atol and rtol"
    )


def bound_for(
    dtype: str, reference_error: float, *, float64: bool, tolerance: Tolerance, sensitivity: float = 0.0
) -> float:
    """What is allowed for an output of ``dtype``; 0 for integers and booleans, which must be equal.

    ``sensitivity`` says how far the answer moves when every input moves by an epsilon of the output's dtype at most. An
    answer that is right for inputs which nobody can tell from those given is not wrong (Higham: Accuracy and Stability
    of Numerical Algorithms, 2002, section 1.5), so the least error counts in that unit where it is the larger one.
    """
    if tolerance.is_absolute:
        return ABSOLUTE
    if tolerance.relative is not None:
        return tolerance.relative
    dtype = _PARTS.get(dtype, dtype)
    if dtype not in EPSILON:
        return 0.0
    if not float64 or dtype == "float64":
        return max(OWN_PRECISION[dtype], MULTIPLE * LEAST_ERROR[dtype] * sensitivity)
    return MULTIPLE * max(reference_error, LEAST_ERROR[dtype] * max(EPSILON[dtype], sensitivity))


def moderate_error(dtype: str, usual: float = 0.0) -> float:
    """How far a reference may be off on inputs that are harder than its own and still say what is right.

    ``usual`` is its error on its own inputs, where it says that by definition: of convolutions in TF32, a thousand
    epsilons of float32.
    """
    epsilon = EPSILON.get(_PARTS.get(dtype, dtype), 0.0)
    return min(MOST_ERROR, max(MOST_EPSILONS * epsilon, MULTIPLE * usual))


def is_steady(dtype: str, movements: Sequence[float]) -> bool:
    """Whether ``movements`` of the answer, where inputs moved by an epsilon, are alike enough for a bound.

    One that is much farther than the others means that the inputs lie beside an edge, where the private draw decides
    what is right. Movements that do not raise the bound may differ.
    """
    if len(movements) < SHAKES or max(movements) <= EPSILON.get(_PARTS.get(dtype, dtype), 0.0):
        return True
    return max(movements) <= STEADY * statistics.median(movements)
