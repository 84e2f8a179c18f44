"""Inputs that show errors of single numbers in a reduction: few of them dominate, or all are nearly equal.

On usual inputs errors of single numbers average out: a mean loss of a million exponentials is right although each of
them is off by 0.2 %.
"""

from dataclasses import dataclass

import torch

from . import values

SHRUNK = 2.0**-14
"""``dominated`` multiplies all numbers but those that dominate by this."""
BELOW = (0.1, 0.4)
"""The second of two numbers that dominate lies below the first by a share of it between these."""
FULL_ROWS, LESS = 64, 2.0**-10
"""In so many rows, what dominates is of full size; elsewhere it is multiplied by this. Fewer dominate a mean, and an
error in one number in a hundred still meets some of them."""
SECONDS, PLACES = 4, 16
"""So many numbers of a row are the second one where the row has at least so many places."""
DRAWN = 8
"""``repeated`` takes two numbers out of so many."""
APART = 2.0**-7
"""Spreads by which numbers that are nearly the same differ. In sums of equal ones rounding would have a direction, and
a right sum in another order would be wrong."""


@dataclass(frozen=True)
class Range:
    """Of the finite numbers of a tensor."""

    least: float
    most: float
    mean: float
    spread: float
    """Standard deviation; where all are equal their size, or 1."""


def dominated(tensor: torch.Tensor, limits: Range, generator: torch.Generator) -> torch.Tensor:
    """Numbers near zero, and in every row a few of two sizes: the most of the tensor, and a little less."""
    top = limits.most if limits.most > 0 else limits.least
    low, high = BELOW
    second = top * (1 - low - (high - low) * float(_uniform((), generator)))
    rows = _rows_of(tensor * SHRUNK)
    sizes = torch.full((rows.shape[0], 1), LESS, device=tensor.device)
    sizes[:: -(-rows.shape[0] // FULL_ROWS)] = 1.0
    count = 1 + (SECONDS if rows.shape[1] >= PLACES else int(rows.shape[1] > 2))
    for index in reversed(range(count)):
        near = _near(top if index == 0 else second, limits, (rows.shape[0], 1), generator)
        _put_in_every_row(rows, sizes * near, generator)
    return _with_nonfinite(rows.view(tensor.shape), tensor)


def repeated(tensor: torch.Tensor, limits: Range, generator: torch.Generator) -> torch.Tensor:
    """Nearly the same number everywhere, and a larger one somewhere in every row; both are among those drawn."""
    indices = torch.randint(0, tensor.numel(), (DRAWN,), generator=generator, device=tensor.device)
    drawn = tensor.take(indices).nan_to_num(0.0, 0.0, 0.0).sort().values
    usual = _near(float(drawn[(DRAWN - 1) // 2]), limits, tuple(tensor.shape), generator)
    rows = _rows_of(usual.to(tensor.dtype))
    _put_in_every_row(rows, _near(float(drawn[-1]), limits, (rows.shape[0], 1), generator), generator)
    return _with_nonfinite(rows.view(tensor.shape), tensor)


def _near(number: float, limits: Range, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Numbers a little nearer to zero than ``number``, of its sign: they stay within the tensor's range."""
    share = min(0.5, APART * limits.spread / abs(number)) if number else 0.0
    return _uniform(shape, generator).mul_(-share).add_(1.0).mul_(number)


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float32)


def _rows_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1, tensor.shape[-1] if tensor.dim() > 1 else tensor.numel())


def _put_in_every_row(rows: torch.Tensor, numbers: torch.Tensor, generator: torch.Generator) -> None:
    indices = torch.randint(0, rows.shape[1], (rows.shape[0], 1), generator=generator, device=rows.device)
    rows.scatter_(1, indices, numbers.to(rows.dtype))


def _with_nonfinite(changed: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """``changed`` with those numbers of ``tensor`` that are not finite."""
    if values.all_finite(tensor.reshape(-1)):
        return changed
    return torch.where(torch.isfinite(tensor), changed, tensor)
