"""Repeats a check on further draws where an error on derived inputs lies beside the bound; the majority decides.

Such a candidate may be wrong on one draw and right on the next. So other draws of the same variant at the same shape
are checked until most of :data:`DRAWS` agree. One draw decides if its error is far from the bound, and on the problem's
own values.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .inputs.case import Case
from .inputs.sizes import REDRAWN_BYTES
from .inputs.variants import UNDECIDED, VALUE_VARIANTS, parts
from .messages.commands import Compared, Output

DRAWS = 5
MAJORITY = DRAWS // 2 + 1
NARROW = 2.0
"""An error between the bound divided by this and the bound times this lies beside it.

What was verified on some draws is timed on many more, each of which would convict an honest sum now and then: errors of
timed calls may be so many bounds. Work that is left out, or done in a lower precision, is much further off.
"""


@dataclass(frozen=True)
class Draw:
    """One call on one derived case, whose outputs the candidate still holds."""

    slot: int
    case: Case
    outputs: tuple[Output, ...]
    result: Compared

    @property
    def is_narrow(self) -> bool:
        """Whether other draws decide."""
        result = self.result
        has_other_values = not {*UNDECIDED, *VALUE_VARIANTS}.isdisjoint(parts(self.case.kind))
        is_drawn_again = has_other_values and self.case.inputs.size <= REDRAWN_BYTES
        return is_drawn_again and result.bound < result.error * NARROW and result.error <= result.bound * NARROW


async def decided(first: Draw, draw: Callable[[int], Awaitable[Draw | None]]) -> tuple[Draw, str]:
    """The draw whose result counts, and in words how many failed where there are several.

    Args:
        first: The draw that every candidate is checked on.
        draw: Makes a call on another one into the given slot; None where the variant is invalid.
    """
    if not first.is_narrow:
        return first, ""
    draws = [first]
    for slot in range(1, DRAWS):
        redraw = await draw(slot)
        draws += [] if redraw is None else [redraw]
        failed = [trial for trial in draws if not trial.result.ok]
        if max(len(failed), len(draws) - len(failed)) == MAJORITY:
            break
    failed = [trial for trial in draws if not trial.result.ok]
    passed = [trial for trial in draws if trial.result.ok]
    counts = failed if len(failed) > len(passed) else passed
    return counts[0], f"failed on {len(failed)} of {len(draws)} draws"
