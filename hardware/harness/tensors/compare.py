"""Compares what a candidate wrote with what is right, chunk by chunk, in the reference's process."""

import functools
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..messages.commands import UNMEASURABLE, Compared, Expected, Output
from ..messages.state import StateEntry
from .bounds import EPSILON, LEAST_ERROR, MULTIPLE, Tolerance, bound_for, is_moderate, is_steady
from .flat import chunks_of, flat, rms_of_finite, text_of, unravel, untouched
from .output_transfer import Written
from .tensor_placement import current_device
from .values import all_finite, dtype_name

LARGE = 1 << 27
"""Elements. The float64 oracle of a larger output would fill the memory that its inputs need: it is kept in float32
once the reference's own error is known. That moves it by 2^-24 at most, a thirtieth of the least bound there is."""
_LEAST_BOUND, _LARGEST = 2.0**-20, 1e38
_WEIGHED = 1 << 24
"""Elements. What a difference counts is kept for smaller outputs, and made anew for larger ones."""


class Target:
    """One expected output: the oracle, and how far from it the reference itself is."""

    entry: StateEntry | None = None
    """What it is of the state; None for what a call returns."""
    is_judged = True
    """Whether candidates are held to it."""
    hangs_on_ties = False
    """Whether it is another one where (nearly) equal numbers are taken in another order: finite ones will do then."""
    overlaps = False  # Whether elements of the reference's share memory.

    @property
    def is_answer(self) -> bool:
        """Whether it is what a caller sees: an output, or an input that is written."""
        return self.entry is None or self.entry.tensor >= 0

    def __init__(
        self, native: Any, precise: Any, tolerance: Tolerance, shaken: Sequence[Any] = (), other: Any = None
    ) -> None:
        """``native`` is the reference's output, ``precise`` the same in float64 (or None if there is no such thing).

        ``shaken`` are like ``precise``, for inputs that are off by an epsilon at most, where the bound has to know what
        that does to the answer. ``other`` is like ``native``, by other kernels of torch: the larger error of the two
        is the reference's own.
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
        self.reference_error = min(self.distance_to(native), UNMEASURABLE)
        if other is not None and self.fits(other):
            # A kernel of torch that is far off would say nothing.
            least = LEAST_ERROR.get(self.dtype, 0.0) * EPSILON.get(self.dtype, 0.0)
            self.reference_error = max(
                self.reference_error, min(self.distance_to(other), MULTIPLE * max(self.reference_error, least))
            )
        known = [moved for moved in shaken if precise is not None and _is_as_precise(moved, native)]
        self._movements = [self.distance_to(moved) for moved in known]
        self.sensitivity = max(self._movements, default=0.0)
        self.bound = bound_for(
            self.dtype or {"float": "float32"}.get(self.kind, ""),
            self.reference_error,
            float64=precise is not None,
            tolerance=tolerance,
            sensitivity=self.sensitivity,
        )
        if self._may_be_rounded():
            self._oracle = self._oracle.float()

    def _may_be_rounded(self) -> bool:
        """Whether the oracle is too large to keep in float64, and float32 says as much for the bound that holds."""
        if self._oracle.numel() <= LARGE or not self.float64 or self.dtype not in ("float32", "float16", "bfloat16"):
            return False
        parts = chunks_of(self._oracle, self._chunk)
        is_tight = self._tolerance.is_given or self.bound < _LEAST_BOUND or self._special is not None
        return not is_tight and all(float(part.abs().max()) < _LARGEST for part in parts)

    def doubt(self, *, may_be_nan: bool, usual: float = 0.0) -> str:
        """Why the reference does not say what is right here; empty if it does (docs/judge.md gives the rule).

        An error like the ``usual`` one, on the problem's own inputs, raises no doubt.
        """
        if self.hangs_on_ties and self._agrees_on_nonfinite():
            return ""
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
        error = max(self.reference_error, self.sensitivity)
        if self._tolerance.is_given:
            return "" if MULTIPLE * error <= self.bound else f"its error is {error:.2g}, the tolerance {self.bound:.2g}"
        if not is_moderate(self.dtype or "float32", error, usual):
            return f"its error is {error:.2g}"
        if not is_steady(self.dtype or "float32", self._movements):
            usual = statistics.median(self._movements)
            return f"its answer moves by {usual:.2g} or {self.sensitivity:.2g} when inputs move by an epsilon"
        return ""

    def jumps_to(self, precise: Any) -> bool:
        """Whether ``precise``, an answer of float64, is no rounding of this one; None: there is no such thing."""
        if precise is None:
            return False
        if not self.floating:
            return not self.accepts(precise)
        return not is_moderate(self.dtype or "float32", self.distance_to(precise))

    def distance_to(self, answer: Any) -> float:
        """The largest error of ``answer``, a number or tensor of this one's shape in any precision."""
        return self.error(chunks_of(flat(answer, False), self._chunk))[0]

    def _agrees_on_nonfinite(self) -> bool:
        if self._special is None:
            return True
        precise, native = self._oracle[self._special], self._native_special[self._special]
        return bool(((precise == native) | (precise.isnan() & native.isnan())).all())

    @property
    def is_finite(self) -> bool:
        """Whether oracle and reference are, everywhere."""
        return self._special is None

    def expected(self) -> Expected:
        """What the supervisor may know of it."""
        return Expected(
            kind=self.kind, dtype=self.dtype, shape=self.shape, reference_error=self.reference_error, bound=self.bound
        )

    def accepts(self, answer: Any) -> bool:
        """Whether ``answer`` (a tensor or number, or None for "cannot even be it") would pass."""
        return self.distance_of(answer) <= 1

    def distance_of(self, answer: Any) -> float:
        """How far off ``answer`` is, in bounds; infinite where it is of another kind or shape."""
        if self.kind == "none":
            return 0.0 if answer is None else math.inf
        if answer is None or not self.fits(answer):
            return math.inf
        return self._distance(chunks_of(flat(answer, False), self._chunk))

    def distance_of_constant(self, value: float) -> float:
        """How far off ``value`` everywhere is, in bounds."""
        if self.kind == "none":
            return 0.0
        if self.kind != "tensor":
            return self.distance_of({"float": float, "int": int, "bool": bool}[self.kind](value))
        elements = self._oracle.numel()
        count = min(self._chunk, elements) // (2 if self._dtype.is_complex else 1)
        block = flat(torch.full((count,), value, dtype=self._dtype, device=self._device), False)
        return self._distance(block[: min(self._chunk, elements - begin)] for begin in range(0, elements, self._chunk))

    def distance_of_first_row(self, *, everywhere: bool) -> float:
        """How far off the first row is, in bounds, where it belongs and zeros elsewhere, or ``everywhere``.

        Infinite without rows.
        """
        if self.kind == "none":
            return 0.0
        if self.kind != "tensor" or len(self.shape) == 0 or self.shape[0] < 2 or self._dtype.is_complex:
            return math.inf
        row = self._oracle[: self._oracle.numel() // self.shape[0]].to(self._dtype)
        return self._distance(self._of_row(row, everywhere))

    def _of_row(self, row: torch.Tensor, everywhere: bool) -> Iterator[torch.Tensor]:
        elements, length = self._oracle.numel(), row.numel()
        for begin in range(0, elements, self._chunk):
            index = torch.arange(begin, min(begin + self._chunk, elements), device=self._device)
            chunk = row[index % length]
            yield chunk if everywhere else chunk.mul_(index < length)

    def _distance(self, chunks: Iterator[torch.Tensor]) -> float:
        """In bounds; of what is off, only as far as it was looked at."""
        error = self.error(chunks, enough=self.bound)[0]
        far = error >= UNMEASURABLE or (error > 0 and not self.bound)
        return math.inf if far else error / self.bound if self.bound else 0.0

    def fits(self, answer: Any) -> bool:
        """Whether ``answer`` has this output's kind, dtype and shape."""
        if not isinstance(answer, torch.Tensor):
            return type(answer).__name__ == self.kind
        return self.kind == "tensor" and tuple(answer.shape) == self.shape and answer.dtype == self._dtype

    @functools.cached_property
    def mean(self) -> float:
        """Mean of the oracle's elements."""
        count = self._oracle.numel()
        total = sum(float(part.double().sum()) for part in chunks_of(self._oracle, self._chunk))
        mean = total / count if count else 0.0
        return mean if math.isfinite(mean) and self.floating else float(round(mean)) if math.isfinite(mean) else 0.0

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
        for chunk in chunks:
            errors = self._errors(chunk, begin)
            if errors.numel():
                largest = float(errors.max())
                if not largest <= worst:
                    index = int(torch.nan_to_num(errors, nan=math.inf).argmax())
                    worst, worst_index = (largest if math.isfinite(largest) else UNMEASURABLE), begin + index
            if worst >= UNMEASURABLE or worst > enough:
                break
            begin += chunk.numel()
        return worst, worst_index

    def _errors(self, got: torch.Tensor, begin: int) -> torch.Tensor:
        end = begin + got.numel()
        oracle = self._oracle[begin:end]
        if self.hangs_on_ties:
            return (oracle.isfinite() & ~got.isfinite()).double() * UNMEASURABLE
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

    def written(self, file: Written, position: int, step: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """What a candidate wrote at ``position``, and what is right, flat in float64; empty for what is no tensor.

        Of every ``step`` elements the first.
        """
        if self.kind != "tensor" or not self.floating:
            return torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
        begins = range(0, self._oracle.numel(), self._chunk)
        # A copy of each: all parts are read into one buffer.
        parts = [
            chunk[-begin % step :: step].double().clone()
            for begin, chunk in zip(begins, self.read(file, position), strict=True)
        ]
        return torch.cat([self._oracle[:0].double(), *parts]), self._oracle[::step].double()

    def whole(self, file: Written, position: int) -> torch.Tensor:
        """What a candidate wrote at ``position``, in this output's own type and shape; it is no number."""
        return torch.cat([chunk.clone() for chunk in self.read(file, position)]).view(self.shape)

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

    def after(self, position: int) -> int:
        """Where the next output begins in a file that has this one at ``position``."""
        return position + (math.prod(self.shape) * self._dtype.itemsize if self.kind == "tensor" else 0)

    def compare(self, output: Output, file: Written, position: int, index: int, bound: float) -> tuple[Compared, int]:
        """Compare one output in ``file`` at ``position``; returns the result and where the next output begins."""
        if self.kind != "tensor":
            return self._compare_number(output, index, bound), position
        error, worst_index = self.error(self.read(file, position))
        ok = error <= bound
        result = Compared(
            ok=ok,
            error=error,
            reference_error=self.reference_error,
            bound=bound,
            output=index,
            unwritten=0 if ok else sum(untouched(chunk) for chunk in self.read(file, position)),
        )
        return (result if ok else self._with_worst(result, file, position, worst_index)), self.after(position)

    def _compare_number(self, output: Output, index: int, bound: float) -> Compared:
        got = torch.tensor(
            [] if output.value is None else [output.value], dtype=torch.float64, device=self._oracle.device
        )
        error, _ = self.error(iter([got if self.floating else got.to(self._oracle.dtype)]))
        expected = str(self._oracle[0].item()) if self._oracle.numel() else "None"
        return Compared(
            ok=error <= bound,
            error=error,
            reference_error=self.reference_error,
            bound=bound,
            output=index,
            expected=expected,
            got=str(output.value),
        )

    def _with_worst(self, result: Compared, file: Written, position: int, worst_index: int) -> Compared:
        per_element = 2 if self._dtype.is_complex else 1
        width = self._dtype.itemsize // per_element
        got = self._decode(file.few(position + worst_index * width, width))
        return Compared(
            ok=False,
            error=result.error,
            reference_error=result.reference_error,
            bound=result.bound,
            output=result.output,
            element=unravel(worst_index // per_element, self.shape),
            expected=text_of(self._oracle[worst_index]),
            got=text_of(got[0]) if got.numel() else "nothing",
            unwritten=result.unwritten,
        )

    def read(self, file: Written, position: int) -> Iterator[torch.Tensor]:
        """What a candidate wrote at ``position``, in chunks of this output's dtype."""
        width = self._element_width()
        for begin in range(0, self._oracle.numel(), self._chunk):
            count = min(self._chunk, self._oracle.numel() - begin)
            yield self._decode(file.part(position + begin * width, count * width)).to(self._device)

    def _decode(self, raw: torch.Tensor) -> torch.Tensor:
        if self._dtype == torch.bool:
            return raw != 0
        part = torch.float64 if self._dtype == torch.complex128 else torch.float32
        return raw.view(part if self._dtype.is_complex else self._dtype)

    def _element_width(self) -> int:
        return int(self._dtype.itemsize) // (2 if self._dtype.is_complex else 1)


def _is_as_precise(precise: Any, native: Any) -> bool:
    if isinstance(native, torch.Tensor):
        wide = (torch.float64, torch.complex128)
        return isinstance(precise, torch.Tensor) and precise.shape == native.shape and precise.dtype in wide
    return isinstance(precise, float)


def _is_same(precise: Any, native: Any) -> bool:
    if not isinstance(native, torch.Tensor) or not isinstance(precise, torch.Tensor):
        return True
    return precise.shape == native.shape and bool((precise == native).all())


def relative_bound(tolerance: Tolerance, targets: list[Target]) -> float | None:
    """The least that is allowed of the floating outputs, 0 without any; None where it is absolute."""
    if tolerance.is_absolute:
        return None
    return min((target.bound for target in targets if target.floating), default=0.0)
