"""How far results may lie apart where they come from one operator."""

from typing import Any

import torch

ERRORS = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Largest difference, relative to the output's elements and their root mean square; of other types none."""


def disagreement(actual: Any, reference: Any) -> float:
    """By how much a result differs from ``reference``, where that is too much; else 0. NaN where one of them is NaN."""
    if not isinstance(reference, torch.Tensor):
        return float(actual != reference)
    if not isinstance(actual, torch.Tensor) or actual.shape != reference.shape or actual.dtype != reference.dtype:
        return float("inf")
    if not actual.numel() or torch.equal(actual, reference):
        return 0.0
    got, expected = (
        (torch.view_as_real(value.resolve_conj()) if value.is_complex() else value).double()
        for value in (actual, reference)
    )
    finite = expected.where(expected.isfinite(), 0)
    scale = finite.abs() + finite.square().mean().sqrt() + torch.finfo(torch.float64).tiny
    same = (got == expected) | (got.isnan() & expected.isnan())
    error = float(((got - expected).abs() / scale).where(~same, 0).max())
    return 0.0 if error <= ERRORS.get(reference.dtype, 0.0) else error
