"""Makes harder inputs out of a problem's own: other values, or the same ones in other places.

Only floating tensors are touched, and what can be seen of their meaning stays: a tensor without negative numbers gets
none, one that is sorted along its last dimension stays sorted, whole numbers (flags, labels, counts) stay as they are,
and equal numbers of one tensor stay equal where the change is one of values, not of places. Integers are never touched.
"""

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ...processes.messages import HOST
from ..inputs.variants import CENTRED, DOMINATED, REPEATED, SPREAD, STRIDED, blocks, parts
from ..tensors import reductions, values
from ..tensors.reductions import Range

SHIFT = 32.0
"""Spreads by which ``shifted`` moves the mean: a variance from sums of squares loses three digits of it, one from
distances none."""
TAIL = 1.5
FARTHEST = 5.0
"""``heavy_tailed`` is ``sinh``, of that many spreads at most: a thousand times the usual value."""
OCTAVES = 6.0
"""``spread`` scales rows by powers of two, of so many on either side."""
DECADES = 3.0
"""``ill_conditioned`` spreads magnitudes over so many powers of ten on either side."""
LEFT_OVER = 2.0**-6
"""What is left of a pair of numbers that cancel."""
SPECIAL_ROWS = 4
"""One row in so many gets numbers that are not finite."""
MOST_SPECIAL_ROWS = 64
MOST_TINY = 1 << 22
"""Numbers that become zero or denormal at most."""
LED_ROWS = 2
"""In one row of so many the farthest number comes first. Kernels that take the first number for a typical one fail on
every draw then, not on those by chance where it is none."""
LEAST_TESTED = 8
"""Neighbours a tensor must have before their order says that it is sorted."""
PART, HOST_PART = 1 << 24, 1 << 18
"""Elements that are changed at once, on a device and in main memory: in between they are in float64."""
MOST_GAP = 64
"""Elements between padded rows at most."""

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def derive(inputs: list[Any], variant: str, seed: int) -> list[Any] | None:
    """``inputs`` changed as ``variant`` says; None where nothing of them can be. ``inputs`` themselves stay."""
    if len(blocks(variant)) > 1:
        return _in_blocks(inputs, blocks(variant), seed)
    changed: list[Any] | None = inputs
    for part in parts(variant):
        changed = None if changed is None else _derive(changed, part, seed)
    return changed


def _in_blocks(inputs: list[Any], variants: tuple[str, ...], seed: int) -> list[Any] | None:
    """Every variant in a block of rows of its own. Tensors with another number of rows stay."""
    free = [leaf for leaf in values.leaves(inputs) if _is_free(leaf) and leaf.dim()]
    if not free:
        return None
    extents = tuple(max(free, key=torch.Tensor.numel).shape)
    dim = next((dim for dim, extent in enumerate(extents) if extent >= len(variants)), 0)
    split = [leaf for leaf in free if leaf.dim() > dim and leaf.shape[dim] == extents[dim]]
    copies = {id(leaf): leaf.clone() for leaf in split}
    for index, variant in enumerate(variants):
        begin, end = (extents[dim] * edge // len(variants) for edge in (index, index + 1))
        block = [leaf.narrow(dim, begin, end - begin) for leaf in split]
        for leaf, part in zip(split, derive(block, variant, seed) or block, strict=True):
            copies[id(leaf)].narrow(dim, begin, end - begin).copy_(part)
    return _replaced(inputs, copies)


def _derive(inputs: list[Any], variant: str, seed: int) -> list[Any] | None:
    leaves = [leaf for leaf in values.leaves(inputs) if _is_free(leaf)]
    if variant == STRIDED:
        odd = [leaf for leaf in values.leaves(inputs) if _is_floating(leaf)]
        gaps = random.Random(seed)
        return _replaced(inputs, {id(leaf): _strided(leaf, index, gaps) for index, leaf in enumerate(odd)})
    if not leaves:
        return None
    generator = torch.Generator(leaves[0].device).manual_seed(seed)
    if variant == CENTRED:
        return _replaced(inputs, _centred(leaves))
    if variant == "shifted":
        ranges = [_range_of(leaf) for leaf in leaves]
        by = SHIFT * max(limits.spread for limits in ranges)
        return _replaced(
            inputs,
            {
                id(leaf): _moved(leaf, by if limits.most > 0 else -by)
                for leaf, limits in zip(leaves, ranges, strict=True)
            },
        )
    if variant == SPREAD:
        return _replaced(inputs, {id(leaf): _spread(leaf, generator) for leaf in leaves if _has_rows(leaf)})
    if variant == "heavy_tailed":
        return _replaced(inputs, {id(leaf): _led(_heavy_tailed(leaf), leaf, 1) for leaf in leaves})
    leaves = [leaf for leaf in leaves if not _is_sorted(leaf)]
    if variant == "ill_conditioned":
        return _replaced(inputs, {id(leaf): _led(_ill_conditioned(leaf, generator), leaf, 2) for leaf in leaves})
    largest = max(leaves, key=torch.Tensor.numel, default=None)
    if largest is None or largest.numel() < 2:
        return None
    if variant in _REDUCED:
        alike = [leaf for leaf in leaves if leaf.shape == largest.shape]
        return _replaced(inputs, {id(leaf): _REDUCED[variant](leaf, _range_of(leaf), generator) for leaf in alike})
    return _replaced(inputs, {id(largest): _SPARSE_CHANGES[variant](largest, generator)})


def _is_floating(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype in _DTYPES and leaf.layout == torch.strided


def _is_free(leaf: Any) -> bool:
    """Whether its values may be others: not if all of them are whole numbers, which then mean something."""
    if not _is_floating(leaf) or leaf.numel() == 0:
        return False
    return any(not bool((part == part.round()).all()) for part in map(_finite, _parts_of(leaf)))


def _is_sorted(tensor: torch.Tensor) -> bool:
    if tensor.dim() == 0 or tensor.shape[-1] < 2:
        return False
    steps = tensor[..., 1:] - tensor[..., :-1]
    return steps.numel() >= LEAST_TESTED and (bool((steps >= 0).all()) or bool((steps <= 0).all()))


def _has_rows(tensor: torch.Tensor) -> bool:
    return tensor.dim() > 0 and not _is_sorted(tensor)


def _replaced(value: Any, by: dict[int, torch.Tensor]) -> Any | None:
    """``value`` with the tensors of these identities replaced; None if there are none."""
    return _replace(value, by) if by else None


def _replace(value: Any, by: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return by.get(id(value), value)
    if isinstance(value, list | tuple):
        return type(value)(_replace(item, by) for item in value)
    if isinstance(value, dict):
        return {key: _replace(item, by) for key, item in value.items()}
    return value


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    return (flat if values.all_finite(flat) else flat[torch.isfinite(flat)]).double()


def _range_of(tensor: torch.Tensor) -> Range:
    least, most, total, count = math.inf, -math.inf, 0.0, 0
    for part in filter(torch.Tensor.numel, map(_finite, _parts_of(tensor))):
        least, most = min(least, float(part.min())), max(most, float(part.max()))
        total, count = total + float(part.sum()), count + part.numel()
    mean = total / count
    squares = sum(float((part - mean).square().sum()) for part in map(_finite, _parts_of(tensor)))
    return Range(least, most, mean, math.sqrt(squares / count) or max(abs(least), abs(most)) or 1.0)


def _parts_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Views of it, cut along its longest dimension, that hold :data:`PART` elements or little more."""
    most = HOST_PART if tensor.device.type == HOST else PART
    if tensor.numel() <= most:
        yield tensor
        return
    longest = max(range(tensor.dim()), key=lambda dim: tensor.shape[dim])
    extent = tensor.shape[longest]
    yield from tensor.split(max(1, most * extent // tensor.numel()), dim=longest)


def _by_parts(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A tensor like ``tensor``, whose elements are changed one by one."""
    result = torch.empty_like(tensor)
    for part, source in zip(_parts_of(result), _parts_of(tensor), strict=True):
        part.copy_(_as_before(change(source.double()), source))
    return result


def _as_before(changed: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """``changed`` in the dtype of ``tensor``, within that type's range, and with its numbers that are not finite."""
    most = torch.finfo(tensor.dtype).max
    within = changed.clamp_(-most, most).to(tensor.dtype)
    return within if values.all_finite(tensor.reshape(-1)) else torch.where(torch.isfinite(tensor), within, tensor)


def _moved(tensor: torch.Tensor, by: float) -> torch.Tensor:
    return _by_parts(tensor, lambda part: part + by)


def _centred(leaves: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Those without negative numbers, all moved by the mean of the largest: what they have in common stays."""
    ranges = [(leaf, _range_of(leaf)) for leaf in leaves]
    positive = [(leaf, limits) for leaf, limits in ranges if limits.least >= 0]
    if not positive:
        return {}
    _, largest = max(positive, key=lambda pair: pair[0].numel())
    return {id(leaf): _moved(leaf, -largest.mean) for leaf, _ in positive}


def _spread(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Rows of sizes of their own, whose exponents lie evenly, in an order that is drawn."""
    rows = tensor.shape[0] if tensor.dim() > 1 else 1
    order = torch.randperm(rows, generator=generator, device=generator.device)
    exponents = OCTAVES * (2 * (order + _uniform((rows,), generator)) / rows - 1)
    factors = torch.exp2(exponents).to(tensor.dtype).view(-1, *[1] * (tensor.dim() - 1))
    return _as_before(tensor * factors, tensor)


def _heavy_tailed(tensor: torch.Tensor) -> torch.Tensor:
    limits = _range_of(tensor)
    pivot = limits.least if limits.least >= 0 else limits.most if limits.most <= 0 else limits.mean

    def change(part: torch.Tensor) -> torch.Tensor:
        distance = ((part - pivot) / limits.spread).clamp_(-FARTHEST, FARTHEST)
        return distance.mul_(TAIL).sinh_().mul_(limits.spread / TAIL).add_(pivot)

    return _by_parts(tensor, change)


def _ill_conditioned(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    decades = DECADES * (2 * _uniform(tensor.shape, generator) - 1)
    spread_out = tensor.double() * torch.pow(10.0, decades)
    half = tensor.shape[-1] // 2 if tensor.dim() else 0
    if half and float(_finite(tensor).min()) < 0:
        left = 1 + LEFT_OVER * _uniform(spread_out[..., :half].shape, generator)
        spread_out[..., half : 2 * half] = -spread_out[..., :half] * left
    return _as_before(spread_out, tensor)


def _led(changed: torch.Tensor, tensor: torch.Tensor, halves: int) -> torch.Tensor:
    """``changed`` with the number that is farthest from the mean first in some rows; what is sorted stays.

    With two ``halves`` of a row that nearly cancel, the number's partner moves along.
    """
    length = tensor.shape[-1] // halves if tensor.dim() > 1 else 0
    if length < 2 or tensor.numel() > PART or _is_sorted(tensor) or not values.all_finite(changed.reshape(-1)):
        return changed
    distance = (changed - _range_of(changed).mean)[::LED_ROWS, ..., :length].abs()
    farthest = distance.argmax(-1, keepdim=True)
    for half in range(halves):
        rows = changed[::LED_ROWS, ..., half * length : (half + 1) * length]
        first = rows[..., :1].clone()
        rows[..., :1] = rows.gather(-1, farthest)
        rows.scatter_(-1, farthest, first)
    return changed


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)


def _tiny(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Zeros of both signs and denormal numbers among the others, and one row of zeros."""
    changed = tensor.clone().contiguous()
    limits = torch.finfo(tensor.dtype)
    some = [0.0, limits.tiny / 4, limits.tiny, *((-0.0, -limits.tiny / 4) if float(_finite(tensor).min()) < 0 else ())]
    _put(changed, some, min(MOST_TINY, max(len(some), tensor.numel() // 16)), generator)
    if changed.dim() > 1 and changed.shape[0] > 2:
        changed[1] = 0.0
    return changed


def _infinite(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    both = (math.inf, -math.inf) if float(_finite(tensor).min()) < 0 else (math.inf,)
    return _with_special(tensor, both, generator)


def _nan(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return _with_special(tensor, (math.nan,), generator, first=SPECIAL_ROWS // 2)


def _with_special(
    tensor: torch.Tensor, special: tuple[float, ...], generator: torch.Generator, first: int = 0
) -> torch.Tensor:
    """A few numbers, one or two in every :data:`SPECIAL_ROWS`-th row: answers that do not depend on them stay."""
    changed = tensor.clone().contiguous()
    rows = changed.view(1, -1) if changed.dim() < 2 else changed.flatten(0, -2)
    every = max(SPECIAL_ROWS, rows.shape[0] // MOST_SPECIAL_ROWS)
    for turn, row in enumerate(rows[min(first, rows.shape[0] - 1) :: every]):
        _put(row, [special[turn % len(special)]], 1 + turn % 2 * (row.numel() > 2), generator)
    return changed


def _put(tensor: torch.Tensor, some: list[float], count: int, generator: torch.Generator) -> None:
    indices = torch.randint(0, tensor.numel(), (count,), generator=generator, device=tensor.device)
    numbers = torch.tensor(some, dtype=tensor.dtype, device=tensor.device)
    tensor.view(-1)[indices] = numbers.repeat(-(-count // len(some)))[:count]


_REDUCED = {DOMINATED: reductions.dominated, REPEATED: reductions.repeated}
_SPARSE_CHANGES: dict[str, Change] = {"tiny": _tiny, "infinite": _infinite, "nan": _nan}


def _strided(tensor: torch.Tensor, index: int, gaps: random.Random) -> torch.Tensor:
    """Transposed or padded in turn, by what is drawn. What lies between is NaN: whoever reads it shows it."""
    if tensor.dim() >= 2 and index % 2 == 0 and min(tensor.shape[-2:]) > 1:
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if tensor.dim() == 0:
        return tensor
    count = tensor.shape[-1]
    if tensor.dim() == 1:
        step = gaps.randint(2, 3 if count <= HOST_PART else 2)
        wide = torch.full((step * count + 1,), math.nan, dtype=tensor.dtype, device=tensor.device)
        return wide[1 : step * count : step].copy_(tensor)
    gap = gaps.randint(1, max(1, min(count, MOST_GAP)))
    wide = torch.full((*tensor.shape[:-1], count + gap + 1), math.nan, dtype=tensor.dtype, device=tensor.device)
    return wide[..., 1 : 1 + count].copy_(tensor)
