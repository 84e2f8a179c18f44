"""Rounds numbers to fewer digits without a change of their type."""

import torch


def to_tf32(tensor: torch.Tensor, cut: bool = False) -> torch.Tensor:
    """The ten leading binary digits behind the point: of the nearest such number, or with ``cut`` the first ten."""
    rounded = tensor.detach().to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    bits = rounded.view(torch.int32)
    if not cut:
        bits += 0x1000
    bits &= ~0x1FFF
    # A GPU's NaN has all digits, and one more makes a zero of it.
    return torch.where(torch.isfinite(tensor), rounded, tensor).to(tensor.dtype)
