"""Compares what a candidate wrote with what is right, chunk by chunk, in the reference's process."""

import math
import os
from collections.abc import Iterator
from typing import Any

import torch

from .bounds import MULTIPLE, Tolerance, bound_for, is_moderate
from .messages import UNMEASURABLE, Compared, Expected, Output
from .place import here
from .values import dtype_name


class Target:
    """One expected output: the oracle, and how far from it the reference itself is."""

    def __init__(self, native: Any, precise: Any, tolerance: Tolerance, shaken: Any = None) -> None:
        """``native`` is the reference's output, ``precise`` the same in float64 (or None if there is no such thing).

        ``shaken`` is ``precise`` for inputs that are off by an epsilon at most, where the bound has to know what that
        does to the answer.
        """
        self._tolerance = tolerance
        self.kind = "tensor" if isinstance(native, torch.Tensor) else type(native).__name__
        self.shape: tuple[int, ...] = ()
        self.dtype = ""
        if isinstance(native, torch.Tensor):
            self.shape, self.dtype = tuple(native.shape), dtype_name(native.dtype)
            self._dtype = native.dtype
        elif native is None:
            self.kind = "none"
        self.floating = self.kind == "float" or (
            self.kind == "tensor" and (native.is_floating_point() or native.is_complex())
        )
        self._is_stable = self.floating or _is_same(precise, native)
        precise = precise if self.floating and _is_as_precise(precise, native) else None
        self.float64 = precise is not None or not self.floating
        self._device = native.device if isinstance(native, torch.Tensor) else torch.device("cpu")
        self._chunk = here().chunk
        self._oracle = _flat(native if precise is None else precise, self.floating)
        self._prepare_special(_flat(native, self.floating))
        self._weight = self._weights() if self.floating else self._oracle
        self.reference_error = 0.0
        self.reference_error = min(self.error(_chunks_of(_flat(native, False), self._chunk))[0], UNMEASURABLE)
        self.sensitivity = 0.0
        if precise is not None and _is_as_precise(shaken, native):
            self.sensitivity = self.error(_chunks_of(_flat(shaken, False), self._chunk))[0]
        self.bound = bound_for(
            self.dtype or {"float": "float32"}.get(self.kind, ""),
            self.reference_error,
            float64=precise is not None,
            tolerance=tolerance,
            sensitivity=self.sensitivity,
        )

    def doubt(self, *, may_be_nan: bool) -> str:
        """Why the reference does not say what is right here; empty if it does (docs/judge.md gives the rule)."""
        if not self._is_stable:
            return "float64 gives another answer"
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
        return "" if is_moderate(self.dtype or "float32", error) else f"its error is {error:.2g}"

    def _agrees_on_nonfinite(self) -> bool:
        if self._special is None:
            return True
        precise, native = self._oracle[self._special], self._native_special[self._special]
        return bool(((precise == native) | (precise.isnan() & native.isnan())).all())

    def expected(self) -> Expected:
        """What the supervisor may know of it."""
        return Expected(
            kind=self.kind, dtype=self.dtype, shape=self.shape, reference_error=self.reference_error, bound=self.bound
        )

    def accepts(self, answer: Any) -> bool:
        """Whether ``answer`` (a tensor or number, or None for "cannot even be it") would pass."""
        if self.kind == "none":
            return answer is None
        if answer is None or not self.fits(answer):
            return False
        return self.error(_chunks_of(_flat(answer, False), self._chunk))[0] <= self.bound

    def fits(self, answer: Any) -> bool:
        """Whether ``answer`` has this output's kind, dtype and shape."""
        if not isinstance(answer, torch.Tensor):
            return type(answer).__name__ == self.kind
        return self.kind == "tensor" and tuple(answer.shape) == self.shape and answer.dtype == self._dtype

    def filled(self, value: float) -> Any:
        """An answer of this output's kind that is ``value`` everywhere."""
        if self.kind == "none":
            return None
        if self.kind != "tensor":
            return {"float": float, "int": int, "bool": bool}[self.kind](value)
        return torch.full(self.shape, value, dtype=self._dtype, device=self._device)

    def of_first_row(self, *, everywhere: bool) -> Any:
        """The first row where it belongs and zeros elsewhere, or the first row ``everywhere``; None without rows."""
        if self.kind != "tensor" or len(self.shape) == 0 or self.shape[0] < 2 or self._dtype.is_complex:
            return None
        rows = self._oracle.reshape(self.shape).to(self._dtype)
        if everywhere:
            return rows[:1].expand(self.shape).contiguous()
        return torch.cat([rows[:1], torch.zeros_like(rows[1:])])

    def mean(self) -> float:
        """Mean of the oracle's elements."""
        mean = float(self._oracle.double().mean()) if self._oracle.numel() else 0.0
        return mean if math.isfinite(mean) and self.floating else float(round(mean)) if math.isfinite(mean) else 0.0

    def _prepare_special(self, native: torch.Tensor) -> None:
        """Where oracle or reference are not finite, either's answer will do; elsewhere the oracle's.

        Where they say NaN, any answer will do that is not finite: ``x * sigmoid(x)`` and ``x / (1 + exp(-x))`` are
        both right, and differ at minus infinity.
        """
        self._special: torch.Tensor | None
        self._rms, self._native_special, self._special = 0.0, self._oracle, None
        if not self.floating:
            return
        finite = torch.isfinite(self._oracle)
        if bool(finite.all()):
            self._rms = float(self._oracle.square().mean().sqrt()) if self._oracle.numel() else 0.0
            if bool(torch.isfinite(native).all()):
                return
        else:
            kept = self._oracle[finite]
            self._rms = float(kept.square().mean().sqrt()) if kept.numel() else 0.0
        self._special = ~(finite & torch.isfinite(native))
        self._native_special = native

    def error(self, chunks: Iterator[torch.Tensor]) -> tuple[float, int]:
        """Largest error over ``chunks`` (in the output's own dtype) and the flat index of the worst element."""
        worst, where, begin = 0.0, 0, 0
        for chunk in chunks:
            errors = self._errors(chunk, begin)
            if errors.numel():
                largest = float(errors.max())
                if not largest <= worst:
                    index = int(torch.nan_to_num(errors, nan=math.inf).argmax())
                    worst, where = (largest if math.isfinite(largest) else UNMEASURABLE), begin + index
            if worst >= UNMEASURABLE:
                break
            begin += chunk.numel()
        return worst, where

    def _errors(self, got: torch.Tensor, begin: int) -> torch.Tensor:
        end = begin + got.numel()
        oracle = self._oracle[begin:end]
        if not self.floating:
            return (got != oracle).double() * UNMEASURABLE
        wide = got.double()
        if self._special is None:
            return wide.sub_(oracle).abs_().mul_(self._weight[begin:end])
        native, special = self._native_special[begin:end], self._special[begin:end]
        agrees = (wide == native) | (wide == oracle) | (~wide.isfinite() & (native.isnan() | oracle.isnan()))
        errors = wide.sub_(oracle).abs_().mul_(self._weight[begin:end])
        return errors.masked_fill_(special & agrees, 0.0)

    def _weights(self) -> torch.Tensor:
        """What a difference counts at each element: the inverse of what is allowed there, or of its size."""
        if self._tolerance.is_absolute:
            scale = self._oracle.abs().mul_(self._tolerance.rtol or 0.0).add_(self._tolerance.atol or 0.0)
        else:
            scale = self._oracle.abs().add_(self._rms)
        return scale.reciprocal_().clamp_(max=UNMEASURABLE)

    def written(self, file: int, position: int) -> tuple[torch.Tensor, torch.Tensor]:
        """What a candidate wrote at ``position``, and what is right, flat in float64; empty for what is no tensor."""
        if self.kind != "tensor" or not self.floating:
            return torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
        # A copy of each: all parts are read into one buffer.
        parts = [chunk.double().clone() for chunk in self._read(file, position)]
        return torch.cat([self._oracle[:0].double(), *parts]), self._oracle.double()

    def after(self, position: int) -> int:
        """Where the next output begins in a file that has this one at ``position``."""
        return position + (math.prod(self.shape) * self._dtype.itemsize if self.kind == "tensor" else 0)

    def compare(self, output: Output, file: int, position: int, index: int) -> tuple[Compared, int]:
        """Compare one output in ``file`` at ``position``; returns the result and where the next output begins."""
        if self.kind != "tensor":
            return self._compare_number(output, index), position
        error, where = self.error(self._read(file, position))
        ok = error <= self.bound
        result = Compared(
            ok=ok,
            error=error,
            reference_error=self.reference_error,
            bound=self.bound,
            output=index,
            unwritten=0 if ok else sum(_untouched(chunk) for chunk in self._read(file, position)),
        )
        return (result if ok else self._with_worst(result, file, position, where)), self.after(position)

    def _compare_number(self, output: Output, index: int) -> Compared:
        got = torch.tensor(
            [] if output.value is None else [output.value], dtype=torch.float64, device=self._oracle.device
        )
        error, _ = self.error(iter([got if self.floating else got.to(self._oracle.dtype)]))
        expected = str(self._oracle[0].item()) if self._oracle.numel() else "None"
        return Compared(
            ok=error <= self.bound,
            error=error,
            reference_error=self.reference_error,
            bound=self.bound,
            output=index,
            expected=expected,
            got=str(output.value),
        )

    def _with_worst(self, result: Compared, file: int, position: int, where: int) -> Compared:
        per_element = 2 if self._dtype.is_complex else 1
        width = self._dtype.itemsize // per_element
        got = self._decode(bytearray(os.pread(file, width, position + where * width)))
        return Compared(
            ok=False,
            error=result.error,
            reference_error=result.reference_error,
            bound=result.bound,
            output=result.output,
            element=_unravel(where // per_element, self.shape),
            expected=_text(self._oracle[where]),
            got=_text(got[0]) if got.numel() else "nothing",
            unwritten=result.unwritten,
        )

    def _read(self, file: int, position: int) -> Iterator[torch.Tensor]:
        count = self._oracle.numel()
        width = self._element_width()
        buffer = bytearray(min(self._chunk, count) * width)
        for begin in range(0, count, self._chunk):
            size = min(self._chunk, count - begin) * width
            view = memoryview(buffer)[:size]
            if os.preadv(file, [view], position + begin * width) < size:
                view[:] = b"\xff" * size
            yield self._decode(view).to(self._device)

    def _decode(self, data: Any) -> torch.Tensor:
        raw = torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
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


def _flat(value: Any, wide: bool) -> torch.Tensor:
    """``value`` as a contiguous vector, complex numbers as pairs; in float64 if ``wide``."""
    if value is None:
        return torch.empty(0)
    tensor = value.detach() if isinstance(value, torch.Tensor) else torch.tensor([value])
    if isinstance(value, float):
        tensor = tensor.double()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj().contiguous())
    flat = tensor.resolve_neg().contiguous().reshape(-1)
    return flat.double() if wide else flat


def _chunks_of(flat: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    for begin in range(0, flat.numel(), size):
        yield flat[begin : begin + size]


def _untouched(chunk: torch.Tensor) -> int:
    """Elements that hold exactly what fresh memory was filled with: torch's own pattern, or malloc's byte."""
    if chunk.dtype == torch.bool:
        return 0
    raw = chunk.contiguous().view(torch.uint8).reshape(chunk.numel(), -1)
    by_torch = torch.full((1,), math.nan if chunk.is_floating_point() else torch.iinfo(chunk.dtype).max).to(chunk.dtype)
    if not chunk.is_floating_point():
        by_torch = torch.full((1,), torch.iinfo(chunk.dtype).max, dtype=chunk.dtype)
    filled = (raw == by_torch.view(torch.uint8).to(raw.device)).all(1) | (raw == 0x7F).all(1)
    return int(filled.sum())


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for extent in reversed(shape):
        flat, position = divmod(flat, extent)
        index.append(position)
    return tuple(reversed(index))


def _text(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.9g}" if isinstance(number, float) else str(number)
