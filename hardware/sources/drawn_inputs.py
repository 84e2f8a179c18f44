"""Inputs of a traced call: the text that draws others like them, and copies that lie in memory as they do.

A trace holds sizes as numbers: those that depend on values are other numbers for other values.
"""

import re
from collections.abc import Mapping, Sequence
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


def redrawn(tensors: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Tensors drawn as the problem file draws them, where the given ones lie."""
    import torch

    names: dict[str, Any] = {"torch": torch}
    exec(inputs_text(tensors), names)
    drawn = names["inputs"](torch.Generator().manual_seed(seed))
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
