"""Do the outputs of two ordinary processes agree? Loosely: the judge has compared them closely. Pure, no torch."""

import math
from collections.abc import Sequence

from .process import Sampled

SHARES = {"torch.float16": 0.02, "torch.bfloat16": 0.05, "torch.float64": 1e-5, "torch.complex128": 1e-5}
"""How far a number may be off, as a share of itself and of the output's root mean square; of float32 a thousandth."""
OTHERS = 1e-3
MOST_OFF = 1e-3
"""Share of the elements that may be off further: a tie that is broken in another way moves an element."""


TIMES_BOUND = 4.0
"""So many times the judge's bound are allowed, if that is more: products in TF32 are off by more than a thousandth."""


def difference(expected: Sampled, got: Sampled, *, bound: float = 0.0) -> str:
    """What is different, as a clause; empty if nothing is. ``bound`` is the judge's (``ProblemFacts.output_bound``)."""
    if len(expected.forms) != len(got.forms):
        return f"it gives {len(got.forms)} outputs, not {len(expected.forms)}"
    for index, (expected_form, form) in enumerate(zip(expected.forms, got.forms, strict=True)):
        if expected_form != form:
            return f"output {index} is {_words(form)}, not {_words(expected_form)}"
        allowed = max(SHARES.get(expected_form[0], OTHERS), TIMES_BOUND * bound)
        share = _share_off(expected.numbers[index], got.numbers[index], allowed)
        if share > MOST_OFF:
            return f"{100 * share:.3g} % of the numbers of output {index} are others than eager's"
    return ""


def _words(form: Sequence[object]) -> str:
    return f"{form[0]} of shape {form[1]}"


def _share_off(expected: Sequence[float], got: Sequence[float], share: float) -> float:
    if len(expected) != len(got):
        return 1.0
    finite = [value for value in expected if math.isfinite(value)]
    scale = math.sqrt(sum(value * value for value in finite) / len(finite)) if finite else 0.0
    off = sum(not _alike(want, have, share, scale) for want, have in zip(expected, got, strict=True))
    return off / max(1, len(expected))


def _alike(want: float, have: float, share: float, scale: float) -> bool:
    if not math.isfinite(want):
        return not math.isfinite(have) if math.isnan(want) else want == have
    return abs(have - want) <= share * (abs(want) + scale)
