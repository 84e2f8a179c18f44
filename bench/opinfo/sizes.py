"""A sample at other sizes: the same operator on tensors that are larger in some dimensions."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from .sample import Sample

_MORE = 3
"""Elements that a dimension grows by."""
_SHRINK = 0.1
"""Numbers move towards zero by this share at most: repeated elements differ then, and mostly stay where an operator is
defined."""


def at_other_sizes(sample: Sample, is_usable: Callable[[Sample], bool]) -> Sample | None:
    """The sample at the first sizes that ``is_usable`` says yes to; None where the operator takes no others.

    Tried are: every size of 2 and more grown, equal ones alike; those equal to the first tensor's first dimension; each
    other one alone.
    """
    leaves, structure = tree_flatten(sample.inputs)
    for sizes in _choices([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]):
        generator = torch.Generator().manual_seed(1)
        grown = [_grown(leaf, sizes, generator) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        other = Sample(sample.target, tree_unflatten(grown, structure), sample.names)
        if is_usable(other):
            return other
    return None


def _choices(tensors: Sequence[torch.Tensor]) -> Iterator[frozenset[int]]:
    sizes = [size for tensor in tensors for size in tensor.shape if size > 1]
    distinct = list(dict.fromkeys(sizes))
    yield from dict.fromkeys(
        (frozenset(distinct), *(frozenset({size}) for size in distinct)) if len(distinct) > 1 else ()
    )
    if len(distinct) == 1:
        yield frozenset(distinct)


def _grown(tensor: torch.Tensor, sizes: frozenset[int], generator: torch.Generator) -> Any:
    if not sizes.intersection(tensor.shape):
        return tensor.clone()
    for dim, size in enumerate(tensor.shape):
        if size in sizes:
            tensor = tensor.index_select(dim, torch.arange(size + _MORE) % size)
    if tensor.is_floating_point():
        share = torch.rand(tensor.shape, generator=generator, dtype=torch.float32)
        tensor = tensor * (1 - _SHRINK * share).to(tensor.dtype)
    return tensor.contiguous()
