"""The tolerance that a problem's source publishes: reported beside the judge's own rule, never instead of it.

A function file may say ``published_tolerance = {"main": {"atol": 1e-2, "rtol": 1e-2, "share": 0.99}}``, by shape: that
share of the elements lies within ``atol + rtol * |reference|`` of the reference in its own precision. Benchmarks that
come with a check of their own are read so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

NAMES = ("atol", "rtol", "share")


@dataclass(frozen=True)
class Published:
    """The tolerance at one shape, and the reference's answers there."""

    atol: float
    rtol: float
    share: float
    answers: tuple[torch.Tensor | None, ...]
    """Flat; None for what is no floating tensor, which the judge compares exactly."""

    def accepts(self, output: int, chunks: Iterator[torch.Tensor]) -> bool:
        """Whether output number ``output``, in chunks, is right by this tolerance."""
        answer = self.answers[output] if output < len(self.answers) else None
        if answer is None or not answer.numel():
            return True
        within, begin = 0, 0
        for chunk in chunks:
            reference = answer[begin : begin + chunk.numel()].to(chunk.device, torch.float64)
            allowed = reference.abs() * self.rtol + self.atol
            got = chunk.double()
            is_right = ((got - reference).abs() <= allowed) | (got == reference) | (got.isnan() & reference.isnan())
            within, begin = within + int(is_right.sum()), begin + chunk.numel()
        return bool(within >= self.share * answer.numel())


def published(tolerances: object, shape: str, answers: Sequence[Any]) -> Published | None:
    """What ``tolerances`` (the file's ``published_tolerance``) say of ``shape``; None if nothing that can be used."""
    entry = tolerances.get(shape) if isinstance(tolerances, Mapping) else None
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(name), int | float) for name in NAMES):
        return None
    flat = tuple(_flat(answer) for answer in answers)
    return Published(float(entry["atol"]), float(entry["rtol"]), float(entry["share"]), flat)


def _flat(answer: Any) -> torch.Tensor | None:
    if not isinstance(answer, torch.Tensor) or not answer.is_floating_point():
        return None
    return answer.detach().contiguous().reshape(-1)
