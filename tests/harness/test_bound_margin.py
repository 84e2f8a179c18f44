"""How far honest kernels stay from the bound where errors add up: a convolution, a softmax, two poolings."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from kernelswarm.hardware.harness.calls.oracle import in_float64
from kernelswarm.hardware.harness.reference.derived import derive
from kernelswarm.hardware.harness.tensors.bounds import SHAKES, Tolerance
from kernelswarm.hardware.harness.tensors.compare import Target

COEFFICIENTS = ("0x1.522418p-5", "0x1.571d94p-3", "0x1.0006bcp-1", "0x1p0", "0x1p0")
"""Of a polynomial of degree four for exp between plus and minus half of ln 2: right to 5.4e-6."""

Convolution = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def _rest(logits: torch.Tensor) -> torch.Tensor:
    return F.max_pool3d(F.max_pool3d(torch.softmax(logits, 1), 2), 2)


def _reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return _rest(F.conv3d(x, weight, bias))


def _unfolded(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    windows = x.contiguous().unfold(2, 3, 1).unfold(3, 3, 1).unfold(4, 3, 1)
    return torch.einsum("bcdhwijk,ocijk->bodhw", windows, weight) + bias.view(1, -1, 1, 1, 1)


def _term_by_term(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    depth, height, width = (extent - 2 for extent in x.shape[2:])
    total = bias.view(1, -1, 1, 1, 1)
    for c, i, j, k in torch.cartesian_prod(torch.arange(3), *[torch.arange(3)] * 3).tolist():
        part = x[:, c : c + 1, i : i + depth, j : j + height, k : k + width]
        total = total + part * weight[:, c, i, j, k].view(1, -1, 1, 1, 1)
    return total


def _in_tf32(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.conv3d(_cut(x), _cut(weight), bias)


def _cut(x: torch.Tensor) -> torch.Tensor:
    return torch.bitwise_and(x.contiguous().view(torch.int32) + 0x1000, ~0x1FFF).view(torch.float32)


def _short_exp(x: torch.Tensor) -> torch.Tensor:
    power = (x / torch.log(torch.tensor(2.0))).round()
    rest = (x.double() - power.double() * torch.log(torch.tensor(2.0, dtype=torch.float64))).float()
    value = torch.zeros_like(x)
    for coefficient in COEFFICIENTS:
        value = value * rest + float.fromhex(coefficient)
    return torch.ldexp(value, power)


def _share(kind: str, answer: Callable[..., torch.Tensor]) -> float:
    """Error of ``answer`` in units of the bound."""
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(2, 3, 16, 16, 16, generator=generator)
    weight = (torch.rand(16, 3, 3, 3, 3, generator=generator) - 0.5) * 0.22
    bias = (torch.rand(16, generator=generator) - 0.5) * 0.22
    if kind != "normal":
        (x,) = derive([x], kind, 1) or []
    arguments = [x, weight, bias]
    count = SHAKES if kind != "normal" else 0
    shaken = [in_float64(_reference, arguments, 2.0**-23, seed) for seed in range(count)]
    target = Target(_reference(*arguments), in_float64(_reference, arguments), Tolerance(), shaken)
    return target.error(iter([answer(*arguments).reshape(-1)]))[0] / target.bound


@pytest.mark.parametrize("kind", ["normal", "heavy_tailed", "shifted", "ill_conditioned", "heavy_tailed+strided"])
@pytest.mark.parametrize("convolution", [_unfolded, _term_by_term])
def test_another_order_stays_well_inside(kind: str, convolution: Convolution) -> None:
    assert _share(kind, lambda *arguments: _rest(convolution(*arguments))) < 0.7


@pytest.mark.parametrize("kind", ["normal", "heavy_tailed+strided"])
def test_a_lower_precision_is_far_outside(kind: str) -> None:
    assert _share(kind, lambda *arguments: _rest(_in_tf32(*arguments))) > 20


def test_an_exponential_with_fewer_digits_is_outside() -> None:
    def kernel(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        logits = F.conv3d(x, weight, bias)
        powers = _short_exp(logits - logits.amax(1, keepdim=True))
        return F.max_pool3d(powers / powers.sum(1, keepdim=True), 4)

    assert _share("normal", kernel) > 1
