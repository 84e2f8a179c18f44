"""Inputs of a traced problem: drawn like the ones that were given, and so with other values.

A trace holds sizes as numbers: those that depend on values are other numbers for other values.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def inputs_text(tensors: Mapping[str, Any]) -> str:
    """The function ``inputs`` of a problem file, which draws tensors like these; each has its name behind it."""
    lines = [f"        {_drawn(value)},  # {label}" for label, value in tensors.items()]
    return "\ndef inputs(generator):\n    return [\n" + "\n".join(lines) + "\n    ]\n"


def _drawn(value: Any) -> str:
    """A torch expression that draws a tensor like ``value``."""
    import torch

    value = value.detach()
    shape = tuple(value.shape)
    if value.dtype is torch.bool:
        return f"torch.rand({shape}, generator=generator) < {float(value.float().mean()) if value.numel() else 0.5:.4f}"
    low, high = (value.min().item(), value.max().item()) if value.numel() else (0, 1)
    order = ".sort().values" if value.ndim == 1 and value.numel() > 2 and bool((value.diff() >= 0).all()) else ""
    if not value.dtype.is_floating_point:
        return f"torch.randint({low}, {high + 1}, {shape}, generator=generator, dtype={value.dtype}){order}"
    wide = value.double()
    mean = float(wide.mean()) if value.numel() else 0.0
    if value.numel() and low >= 0:
        span = f"torch.rand({shape}, generator=generator).mul({high - low!r}).add({low!r})"
        return f"{span}.to({value.dtype}){order}"
    std = float(wide.std()) if value.numel() > 1 else 1.0
    return f"torch.randn({shape}, generator=generator).mul({std!r}).add({mean!r}).to({value.dtype}){order}"


def redrawn(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors drawn as the problem file draws them, where the given ones lie."""
    import torch

    names: dict[str, Any] = {"torch": torch}
    exec(inputs_text(tensors), names)
    drawn = names["inputs"](torch.Generator().manual_seed(0))
    return {name: value.to(given.device) for (name, given), value in zip(tensors.items(), drawn, strict=True)}


def read_for_sizes(module: Any, names: Sequence[str]) -> list[str]:
    """Of the inputs, in ``names`` order the first arguments of a traced module, those whose values give a size."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"][: len(names)]
    waiting = [source for node in module.graph.nodes for source in _size_sources(node)]
    seen = set(waiting)
    while waiting:
        further = {*waiting.pop().all_input_nodes} - seen
        seen |= further
        waiting += further
    return [name for name, node in zip(names, placeholders, strict=False) if node in seen]


def _size_sources(node: Any) -> list[Any]:
    """What an operator reads to know how large its result is."""
    import torch

    tagged = torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ())
    if not tagged and node.target is not torch.ops.aten.where.default:
        return []
    if node.target not in (torch.ops.aten.index.Tensor, torch.ops.aten.masked_select.default):
        return list(node.all_input_nodes)
    read = node.args[1] if isinstance(node.args[1], list | tuple) else [node.args[1]]
    return [mask for mask in read if mask is not None and mask.meta["val"].dtype in (torch.bool, torch.uint8)]
