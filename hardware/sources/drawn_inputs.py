"""Inputs of a traced call: the text that draws others like them, and copies that lie in memory as they do."""

import re
from collections.abc import Mapping
from typing import Any


def copied(value: Any, device: Any = None) -> Any:
    """A copy of a tensor that lies in memory as it does, on ``device`` if one is given; gaps are copied as well."""
    if is_dense(value):
        return value.to(device, copy=True)
    return value.as_strided((_extent(value),), (1,)).to(device, copy=True).as_strided(value.shape, value.stride())


def is_dense(value: Any) -> bool:
    """Whether a tensor is no view that was expanded, transposed or cut out of another."""
    import torch

    return value.layout is not torch.strided or value.is_contiguous()


def _extent(value: Any) -> int:
    """Elements from a tensor's first one to its last one in memory."""
    last: int = sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
    return last + 1


def identifier(text: str) -> str:
    """The name of a value in the problem's text."""
    name = re.sub(r"\W", "_", text) or "operator"
    return f"p_{name}" if name[0].isdigit() else name


def inputs_text(tensors: Mapping[str, Any]) -> str:
    """A problem's ``inputs``, which draws tensors like these."""
    lines = [f"        {_drawn(value)},  # {identifier(label)}" for label, value in tensors.items()]
    return "\ndef inputs(generator):\n    return [\n" + "\n".join(lines) + "\n    ]\n"


def _drawn(value: Any) -> str:
    """A torch expression that draws a tensor like ``value``."""
    import torch

    value = value.detach()
    shape, laid_out = tuple(value.shape), ""
    if not is_dense(value):
        # The kernel is judged, timed and called as the operator is: with what was expanded, transposed or cut out.
        shape = (_extent(value),)
        laid_out = f".as_strided({tuple(value.shape)}, {value.stride()})"
    if value.dtype is torch.bool:
        share = float(value.float().mean()) if value.numel() else 0.5
        drawn = f"torch.rand({shape}, generator=generator) < {share:.4f}"
        return f"({drawn}){laid_out}" if laid_out else drawn
    low, high = (value.min().item(), value.max().item()) if value.numel() else (0, 1)
    order = ".sort().values" if value.ndim == 1 and value.numel() > 2 and bool((value.diff() >= 0).all()) else ""
    order += laid_out
    if not value.dtype.is_floating_point:
        return f"torch.randint({low}, {high + 1}, {shape}, generator=generator, dtype={value.dtype}){order}"
    wide = value.double()
    mean = float(wide.mean()) if value.numel() else 0.0
    if value.numel() and low >= 0:
        span = f"torch.rand({shape}, generator=generator).mul({high - low!r}).add({low!r})"
        return f"{span}.to({value.dtype}){order}"
    std = float(wide.std()) if value.numel() > 1 else 1.0
    return f"torch.randn({shape}, generator=generator).mul({std!r}).add({mean!r}).to({value.dtype}){order}"
