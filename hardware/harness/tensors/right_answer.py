"""One right answer: the oracle, the reference's own error, and the error of any other answer."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..messages.commands import UNMEASURABLE
from ..messages.state import StateEntry
from .bounds import (
    COARSER,
    EPSILON,
    LEAST_ERROR,
    MOST_ERROR,
    MULTIPLE,
    STEADY,
    TF32_ROUNDING,
    Tolerance,
    bound_for,
    is_steady,
    moderate_error,
)
from .flat import chunks_of, flat, rms_of_finite
from .jumps import MOST_MOVED, Jumps
from .tensor_placement import current_device
from .values import all_finite, dtype_name

LARGE = 1 << 27
"""Elements. The float64 oracle of a larger output would fill the memory that its inputs need: it is kept in float32
once the reference's own error is known. That moves it by 2^-24 at most, a thirtieth of the least bound there is."""
_LEAST_BOUND, _LARGEST = 2.0**-20, 1e38
_WEIGHED = 1 << 24
"""Elements. What a difference counts is kept for smaller outputs, and made anew for larger ones."""


@dataclass(frozen=True)
class Measured:
    """A large answer to moved inputs that was let go of: its distance is all that counts where nothing jumps."""

    distance: float
    again: Callable[[], list[Any]]
    """Computes the outputs once more, where something jumps."""
    index: int
    """Which of them it is."""


class RightAnswer:
    """One expected output: the oracle, and how far from it the reference itself is."""

    entry: StateEntry | None = None
    """What it is of the state; None for what a call returns."""
    is_judged = True
    """Whether candidates are held to it."""
    hangs_on_ties = False
    """Whether some of it is another where (nearly) equal numbers are taken in another order."""
    overlaps = False  # Whether elements of the reference's share memory.
    error_in_tf32 = 0.0
    """Of the reference in a precision that torch's switches permit; 0 where that is not known."""
    is_tf32 = False  # Whether that is its own: it is more than in its own precision, and not too much.
    jumps_in_tf32 = False
    """Whether it is too much."""

    @property
    def is_answer(self) -> bool:
        """Whether it is what a caller sees: an output, or an input that is written."""
        return self.entry is None or self.entry.tensor >= 0

    def __init__(
        self,
        native: Any,
        precise: Any,
        tolerance: Tolerance,
        shaken: Sequence[Any] = (),
        other: Any = None,
        permitted: Any = None,
        far: Sequence[Any] = (),
        reordered: Sequence[Any] = (),
        epsilons: float = 1.0,
        step: float = 0.0,
        *,
        exchanged: Sequence[Any] = (),
        is_kept: bool = True,
    ) -> None:
        """``native`` is the reference's output, ``precise`` the same in float64 (or None if there is no such thing).

        ``shaken`` are like ``precise``, for inputs that are off by an epsilon at most, where the bound has to know what
        that does to the answer; large ones may be :class:`Measured`. ``other`` is like ``native``, by other kernels of
        torch, and ``permitted`` in a precision that torch's switches permit: the largest error of the three is the
        reference's own. ``far`` are like ``shaken``, for inputs that are off by so many ``epsilons``, ``exchanged``
        like ``precise`` where equal numbers are taken in other orders, and ``reordered`` where nearly equal ones are:
        by these it is known what jumps. ``step`` is the share that ``far`` inputs are off by, where the reference has
        steps. ``is_kept``: a large one is kept in float32 where that is enough.
        """
        self._tolerance = tolerance
        self.kind = "tensor" if isinstance(native, torch.Tensor) else type(native).__name__
        self.shape: tuple[int, ...] = ()
        self.dtype = ""
        if isinstance(native, torch.Tensor):
            self.shape, self._dtype, self.dtype = tuple(native.shape), native.dtype, dtype_name(native.dtype)
        elif native is None:
            self.kind = "none"
        self.floating = self.kind == "float" or (
            self.kind == "tensor" and (native.is_floating_point() or native.is_complex())
        )
        self.is_stable = self.floating or _is_same(precise, native)  # Whether float64 says the same beside it, too.
        moved = [native, precise, other, *shaken, *far] if far or reordered or exchanged else []
        precise = precise if self.floating and _is_as_precise(precise, native) else None
        self.float64 = precise is not None or not self.floating
        self._device = native.device if isinstance(native, torch.Tensor) else torch.device("cpu")
        self._chunk = current_device().chunk
        self.where_finite = False  # Whether any answer will do where the right one is not finite.
        self._oracle = flat(native if precise is None else precise, self.floating)
        self._prepare_special(flat(native, False))
        self._weight: torch.Tensor | None = None
        if self.floating and self._oracle.numel() <= _WEIGHED:
            self._weight = self._weights(self._oracle)
        self._jumps: Jumps | None = None
        self._distances: dict[int, float] = {} if precise is None else {id(precise): 0.0}
        if moved:
            self._find_jumps(epsilons, moved, reordered, exchanged, shaken)
        self.reference_error = min(self._known_distance(native), UNMEASURABLE)
        if other is not None and self.fits(other):
            # A kernel of torch that is far off would say nothing.
            least = LEAST_ERROR.get(self.dtype, 0.0) * EPSILON.get(self.dtype, 0.0)
            self.reference_error = max(
                self.reference_error, min(self._known_distance(other), MULTIPLE * max(self.reference_error, least))
            )
        self._own_error = self.reference_error
        if permitted is not None and self.fits(permitted):
            self._count_tf32(permitted, far, step)
        known = [moved for moved in shaken if precise is not None and _is_as_precise(moved, native)]
        self._movements = [self._known_distance(moved) for moved in known]
        self.sensitivity = max(self._movements, default=0.0)
        self._distances.clear()
        self.bound = self._bound()
        if is_kept and self._may_be_rounded():
            self._oracle = self._oracle.float()

    def _bound(self) -> float:
        return bound_for(
            self.dtype or {"float": "float32"}.get(self.kind, ""),
            self.reference_error,
            float64=self.floating and self.float64,
            tolerance=self._tolerance,
            sensitivity=self.sensitivity,
        )

    def _count_tf32(self, permitted: Any, far: Sequence[Any], step: float) -> None:
        """The error of ``permitted`` counts, unless that is more than rounding explains: then something jumps there."""
        self.error_in_tf32 = self.distance_to(permitted)
        # What is nothing but rounding in fp32, a mean of zero, is that in TF32 too, where rounding is so much coarser.
        most = MOST_ERROR if self._own_error <= MOST_ERROR else COARSER * self._own_error
        if step:
            most = min(most, STEADY * TF32_ROUNDING / step * max(map(self._known_distance, far), default=0.0))
        self.is_tf32 = self._own_error < self.error_in_tf32 <= most
        self.jumps_in_tf32 = self.error_in_tf32 > max(self._own_error, most)
        if self.is_tf32:
            self.reference_error = self.error_in_tf32

    def expect_error(self, usual: float) -> None:
        """The reference's own error counts as the ``usual`` one of this output at least, which other inputs showed."""
        self.reference_error = max(self.reference_error, usual)
        self.bound = self._bound()

    def take_bound(self, other: "RightAnswer") -> None:
        """Be as strict as ``other``: what is right is another answer, and was found as exactly."""
        self._dtype, self.dtype = other._dtype, other.dtype
        self.reference_error, self.sensitivity = other.reference_error, other.sensitivity
        self.bound = other.bound

    def _find_jumps(self, epsilons: float, *answers: Sequence[Any]) -> None:
        """``answers``: ``moved``, ``reordered``, ``exchanged`` and ``shaken``."""
        moved, reordered, exchanged, shaken = (list(filter(self._is_alike, each)) for each in answers)
        moderate = moderate_error(self.dtype or "float32")
        # Nothing but the order differs there: in float64, whatever differs is its doing.
        ties = self._off_by_more(exchanged, EPSILON.get(self.dtype, EPSILON["float32"]))
        ties |= self._off_by_more(reordered, moderate)
        self.hangs_on_ties = bool(ties.any())
        usual = max(map(self._known_distance, shaken), default=0.0) if self.floating else 0.0
        usual = max(usual, EPSILON.get(self.dtype, EPSILON["float32"]))
        where = self._off_by_more(moved, min(moderate, STEADY * epsilons * usual))
        where &= ~ties
        self.is_stable = int(where.count_nonzero()) <= MOST_MOVED * where.numel()
        if self.is_stable:
            ties |= where
        if bool(ties.any()):
            self._distances.clear()  # Those that jump count no more.
            weight = self._weights(self._oracle[ties]) if self.floating else None
            others = (flat(_numbers_of(answer), False) for answer in (*moved, *reordered, *exchanged))
            self._jumps = Jumps(ties, itertools.chain([self._oracle], others), weight)

    def _off_by_more(self, answers: Sequence[Any], limit: float) -> torch.Tensor:
        """The elements that are off by more than ``limit`` in one of the answers."""
        found = torch.zeros(self._oracle.numel(), dtype=torch.bool, device=self._oracle.device)
        for answer in answers:
            begin = 0
            # Most answers are near, and how near is asked anyway.
            for errors in (
                ()
                if self._known_distance(answer) <= limit
                else self._errors_of(chunks_of(flat(_numbers_of(answer), False), self._chunk))
            ):
                found[begin : begin + errors.numel()] |= ~(errors <= limit)
                begin += errors.numel()
        return found if self._special is None else found & ~self._special

    def measured(self, answer: Any, again: Callable[[], list[Any]], index: int) -> Any:
        """What counts of ``answer`` to moved inputs, output ``index`` of ``again``; all if its form is another one."""
        wide = torch.complex128 if self.is_complex else torch.float64
        is_alike = isinstance(answer, torch.Tensor) and tuple(answer.shape) == self.shape and answer.dtype == wide
        return Measured(self.distance_to(answer), again, index) if is_alike else answer

    def _is_alike(self, answer: Any) -> bool:
        if isinstance(answer, Measured):
            return True
        return answer is not None and self._oracle.numel() > 0 and flat(answer, False).numel() == self._oracle.numel()

    @property
    def jumps(self) -> bool:
        """Whether the right value of some elements hangs on a rounding."""
        return self._jumps is not None

    def _may_be_rounded(self) -> bool:
        """Whether the oracle is too large to keep in float64, and float32 says as much for the bound that holds."""
        if self._oracle.numel() <= LARGE or not self.float64 or self.dtype not in ("float32", "float16", "bfloat16"):
            return False
        parts = chunks_of(self._oracle, self._chunk)
        is_tight = self._tolerance.is_given or self.bound < _LEAST_BOUND or self._special is not None
        return not is_tight and all(float(part.abs().max()) < _LARGEST for part in parts)

    def doubt(self, *, may_be_nan: bool, usual: float = 0.0) -> str:
        """Why the reference does not say what is right here; empty if it does (docs/judge/inputs.md gives the rule).

        An error like the ``usual`` one, on the problem's own inputs, raises no doubt.
        """
        if not self.is_stable:
            return "float64 gives another answer, there or where inputs move by 32 epsilons"
        if not self.floating:
            return ""
        if not self.float64:
            return "it does not run in float64"
        if not self._agrees_on_nonfinite():
            return "it is not finite where float64 is, or the other way round"
        if not may_be_nan and bool(self._oracle.isnan().any()):
            return "its answer is not a number"
        error = max(self._own_error, self.sensitivity)
        if self._tolerance.is_given:
            return "" if MULTIPLE * error <= self.bound else f"its error is {error:.2g}, the tolerance {self.bound:.2g}"
        # In TF32 it is off by more than that nearly everywhere, and says what is right all the same.
        is_moved = self.error_in_tf32 != self._own_error and not self.jumps_in_tf32
        allowed = max(usual, self.error_in_tf32 if is_moved else 0.0)
        for error, known in ((self.sensitivity, usual), (self._own_error, allowed)):
            if error > moderate_error(self.dtype or "float32", known):
                return f"its error is {error:.2g}"
        if not is_steady(self.dtype or "float32", self._movements):
            usual = statistics.median(self._movements)
            return f"its answer moves by {usual:.2g} or {self.sensitivity:.2g} when inputs move by an epsilon"
        return ""

    def distance_to(self, answer: Any) -> float:
        """The largest error of ``answer``, a number or tensor of this one's shape in any precision."""
        return self.error(chunks_of(flat(answer, False), self._chunk))[0]

    def _known_distance(self, answer: Any) -> float:
        """The same, computed once while this is made: each answer is in memory until then, and so is its identity."""
        if id(answer) not in self._distances:
            is_measured = isinstance(answer, Measured) and self._jumps is None
            self._distances[id(answer)] = answer.distance if is_measured else self.distance_to(_numbers_of(answer))
        return self._distances[id(answer)]

    def _agrees_on_nonfinite(self) -> bool:
        if self._special is None:
            return True
        precise, native = self._oracle[self._special], self._native_special[self._special]
        return bool(((precise == native) | (precise.isnan() & native.isnan())).all())

    @property
    def is_finite(self) -> bool:
        """Whether oracle and reference are, everywhere."""
        return self._special is None

    def fits(self, answer: Any) -> bool:
        """Whether ``answer`` has this output's kind, dtype and shape."""
        if not isinstance(answer, torch.Tensor):
            return type(answer).__name__ == self.kind
        return self.kind == "tensor" and tuple(answer.shape) == self.shape and answer.dtype == self._dtype

    def _prepare_special(self, native: torch.Tensor) -> None:
        """Where oracle or reference are not finite, either's answer will do; elsewhere the oracle's.

        Where they say NaN, any answer will do that is not finite: ``x * sigmoid(x)`` and ``x / (1 + exp(-x))`` are
        both right, and differ at minus infinity.
        """
        self._special: torch.Tensor | None
        self._rms, self._native_special, self._special = 0.0, torch.empty(0), None
        if not self.floating:
            return
        self._rms, is_finite = rms_of_finite(self._oracle, self._chunk)
        if is_finite and all(map(all_finite, chunks_of(native, self._chunk))):
            return
        self._special = ~(torch.isfinite(self._oracle) & torch.isfinite(native))
        self._native_special = native

    def error(self, chunks: Iterator[torch.Tensor], enough: float = UNMEASURABLE) -> tuple[float, int]:
        """Largest error over ``chunks`` (in the output's own dtype) and the flat index of the worst element.

        Those behind one with an error of more than ``enough`` are not looked at.
        """
        worst, worst_index, begin = 0.0, 0, 0
        for errors in self._errors_of(chunks):
            if errors.numel():
                largest = float(errors.max())
                if not largest <= worst:
                    index = int(torch.nan_to_num(errors, nan=math.inf).argmax())
                    worst, worst_index = (largest if math.isfinite(largest) else UNMEASURABLE), begin + index
            if worst >= UNMEASURABLE or worst > enough:
                break
            begin += errors.numel()
        return worst, worst_index

    def _errors_of(self, chunks: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        begin = 0
        for part in chunks:
            chunk = part.to(self._device)
            errors = self._errors(chunk, begin)
            if self._jumps is not None:
                self._jumps.judge(errors, chunk, begin)
            yield errors
            begin += chunk.numel()

    def allowed_error(self, chunks: Iterator[torch.Tensor], bound: float) -> float | None:
        """The largest error up to ``bound``, where all that is beyond it may be a jump; else None."""
        if self._jumps is None:
            return None
        errors = torch.cat(list(self._errors_of(chunks)))
        within = errors <= bound
        return float(errors[within].max()) if self._jumps.allows(errors[~within]) and bool(within.any()) else None

    def _errors(self, got: torch.Tensor, begin: int) -> torch.Tensor:
        end = begin + got.numel()
        oracle = self._oracle[begin:end]
        if not self.floating:
            return (got != oracle).double() * UNMEASURABLE
        # A copy even of what is in float64 already: it is changed below.
        wide = got.to(torch.float64, copy=True)
        weight = self._weights(oracle) if self._weight is None else self._weight[begin:end]
        if self._special is None:
            return wide.sub_(oracle).abs_().mul_(weight)
        special = self._special[begin:end].nonzero().squeeze(1)
        native, precise, answer = self._native_special[begin:end][special], oracle[special], wide[special]
        agrees = (answer == native) | (answer == precise) | (~answer.isfinite() & (native.isnan() | precise.isnan()))
        return wide.sub_(oracle).abs_().mul_(weight).index_fill_(0, special[agrees | self.where_finite], 0.0)

    def _weights(self, oracle: torch.Tensor) -> torch.Tensor:
        """What a difference counts at each element: the inverse of what is allowed there, or of its size."""
        size = oracle.double().abs()
        if self._tolerance.is_absolute:
            scale = size.mul_(self._tolerance.rtol or 0.0).add_(self._tolerance.atol or 0.0)
        else:
            scale = size.add_(self._rms)
        return scale.reciprocal_().clamp_(max=UNMEASURABLE)

    @property
    def right(self) -> torch.Tensor:
        """What is right, in this output's shape: integers as they are, else in float64. It is no complex tensor."""
        return self._oracle.view(self.shape)

    @property
    def is_complex(self) -> bool:
        """Whether it is a tensor of complex numbers."""
        return self.kind == "tensor" and self._dtype.is_complex

    @property
    def is_index(self) -> bool:
        """Whether it may be indices: a tensor of whole numbers."""
        return self.kind == "tensor" and not self.floating and self._dtype is not torch.bool


def _numbers_of(answer: Any) -> Any:
    return answer.again()[answer.index] if isinstance(answer, Measured) else answer


def _is_as_precise(precise: Any, native: Any) -> bool:
    if isinstance(precise, Measured):
        return True
    if isinstance(native, torch.Tensor):
        wide = (torch.float64, torch.complex128)
        return isinstance(precise, torch.Tensor) and precise.shape == native.shape and precise.dtype in wide
    return isinstance(precise, float)


def _is_same(precise: Any, native: Any) -> bool:
    if not isinstance(native, torch.Tensor) or not isinstance(precise, torch.Tensor):
        return True
    return precise.shape == native.shape and bool((precise == native).all())
