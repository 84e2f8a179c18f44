"""Elements whose right value depends on rounding: beside a step, or by the order of (nearly) equal numbers.

``round(x / scale)`` goes up or down where ``x / scale`` lies beside a half, and ``topk`` takes one or the other of two
scores. A right kernel rounds in other places than the reference does, and answers otherwise there. Float64 finds these
elements by moving inputs a little and exchanging neighbours. They may be anything that lies about where its answers do;
all others are judged, by a bound that what jumps does not raise.
"""

from collections.abc import Iterable

import torch

from ..messages.commands import UNMEASURABLE

MOST_MOVED = 1 / 2
"""Of an output's elements: where more jump when inputs move a little, the answer as a whole is not defined."""


class Jumps:
    """Those of one output."""

    def __init__(self, where: torch.Tensor, answers: Iterable[torch.Tensor], weight: torch.Tensor | None) -> None:
        """``where``: which of its elements. ``answers``: flat, all of them right. ``weight``: what a difference counts
        at these elements; None for whole numbers, which must be equal.
        """
        self._indices = where.nonzero().squeeze(1)
        self._weight = weight

        def there(answer: torch.Tensor) -> torch.Tensor:
            return answer[self._indices].double()

        # Mapped: a loop's variable would hold a large answer while the next one is computed.
        values = torch.stack(list(map(there, answers)))
        least, most = values.amin(0), values.amax(0)
        # Another kernel may jump at several steps at once, or at some of them.
        self._least, self._most = least - (most - least), most + (most - least)
        self._is_bounded = values.isfinite().all(0)
        far = (most - least) * (UNMEASURABLE if weight is None else weight)
        self._farthest = float(far[self._is_bounded].amax()) if bool(self._is_bounded.any()) else 0.0

    def judge(self, errors: torch.Tensor, got: torch.Tensor, begin: int) -> None:
        """Replace in ``errors`` those of elements that jump; ``got`` is the answer from ``begin`` on."""
        mine = (self._indices >= begin) & (self._indices < begin + got.numel())
        indices, bounded = self._indices[mine] - begin, self._is_bounded[mine]
        value = got[indices].double()
        off = torch.maximum(self._least[mine] - value, value - self._most[mine]).clamp_(min=0.0)
        off *= UNMEASURABLE if self._weight is None else self._weight[mine]
        errors[indices] = torch.where(bounded, off.where(value.isfinite(), UNMEASURABLE), 0.0)

    def allows(self, errors: torch.Tensor) -> bool:
        """Whether errors beyond the bound may be jumps that float64 did not find: so many others, no farther."""
        return errors.numel() <= self._indices.numel() and bool((errors <= self._farthest).all())
