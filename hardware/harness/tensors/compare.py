"""Compares a candidate's outputs with the right answers, chunk by chunk, in the reference's process."""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch

from ..messages.commands import UNMEASURABLE, Compared, Expected, Output
from .bounds import Tolerance
from .flat import chunks_of, flat, text_of, unravel, untouched
from .output_transfer import Written
from .right_answer import RightAnswer


class Target(RightAnswer):
    """One expected output, which answers of others are compared with."""

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

    @functools.cached_property
    def mean(self) -> float:
        """Mean of the oracle's elements."""
        count = self._oracle.numel()
        total = sum(float(part.double().sum()) for part in chunks_of(self._oracle, self._chunk))
        mean = total / count if count else 0.0
        return mean if math.isfinite(mean) and self.floating else float(round(mean)) if math.isfinite(mean) else 0.0

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

    def after(self, position: int) -> int:
        """Where the next output begins in a file that has this one at ``position``."""
        return position + (math.prod(self.shape) * self._dtype.itemsize if self.kind == "tensor" else 0)

    def compare(self, output: Output, file: Written, position: int, index: int, bound: float) -> tuple[Compared, int]:
        """Compare one output in ``file`` at ``position``; returns the result and where the next output begins."""
        if self.kind != "tensor":
            return self._compare_number(output, index, bound), position
        error, worst_index = self.error(self.read(file, position))
        if error > bound and (allowed := self.allowed_error(self.read(file, position), bound)) is not None:
            error = allowed
        ok = error <= bound
        result = Compared(
            ok=ok,
            error=error,
            reference_error=self.reference_error,
            bound=bound,
            output=index,
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
        # Elements that nobody wrote are the reason only if the worst is among them.
        unwritten, finite = self._wrong_elements(file, position, result.bound)
        is_unwritten = bool(untouched(got).any())
        return Compared(
            ok=False,
            error=result.error,
            reference_error=result.reference_error,
            bound=result.bound,
            output=result.output,
            element=unravel(worst_index // per_element, self.shape),
            expected=text_of(self._oracle[worst_index]),
            got=text_of(got[0]) if got.numel() else "nothing",
            unwritten=unwritten if is_unwritten else 0,
            finite=finite,
        )

    def _wrong_elements(self, file: Written, position: int, bound: float) -> tuple[int, int]:
        """How many wrong elements are as fresh memory is, and how many are finite where the right ones are not."""
        begin = unwritten = finite = 0
        for chunk in self.read(file, position):
            wrong = ~(self._errors(chunk, begin) <= bound)
            unwritten += int((untouched(chunk) & wrong).count_nonzero())
            if self._special is not None:
                right = self._oracle[begin : begin + chunk.numel()]
                finite += int((wrong & chunk.isfinite() & ~right.isfinite()).count_nonzero())
            begin += chunk.numel()
        return unwritten, finite

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


def relative_bounds(tolerance: Tolerance, targets: list[Target]) -> dict[str, float] | None:
    """What is allowed of the floating ones, by ``output_0``, … or the name of what is written; None if absolute."""
    if tolerance.is_absolute:
        return None
    outputs = itertools.count()
    named = [(target.entry.name if target.entry else f"output_{next(outputs)}", target) for target in targets]
    bounds: dict[str, float] = {}
    for name, target in named:
        if target.floating:
            bounds[name] = min(target.bound, bounds.get(name, target.bound))
    return bounds
