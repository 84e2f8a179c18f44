"""Convolutions left to the library with what follows them, extremes and scans: cases as in triton_products_cases.py."""

import torch
import torch.nn.functional as F
from torch import nn

CASES = {}


def case(*inputs, bound=2e-5, **config):
    """Register an operator with its inputs, the first for the capture, and the bound of its error."""

    def register(function):
        CASES[function.__name__] = (function, inputs, config, bound)
        return function

    return register


def r(*shape):
    return torch.randn(*shape)


@case(
    lambda: [r(2, 3, 5, 6), r(3, 8, 3, 3), r(8), r(8, 1, 1)],
    lambda: [r(3, 3, 4, 9), r(3, 8, 3, 3), r(8), r(8, 1, 1)],
)
def transposed_chain(x, w, b, shift):
    y = F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1)
    return torch.clamp(y - shift, 0.0, 1.0) * 2.0 / 3.0


@case(
    lambda: [r(2, 3, 9, 8), r(6, 3, 3, 3), r(6)],
    lambda: [r(1, 3, 8, 12), r(6, 3, 3, 3), r(6)],
    tuned=False,
)
def pooled_convolution(x, w, b):
    y = F.max_pool2d(F.hardswish(F.conv2d(x, w, b)), 2)
    return torch.logsumexp(y, 1, keepdim=True)


@case(lambda: [r(2, 3, 5, 6, 7), r(8), r(8), r(8)])
def normed_convolution(x, b, scale, shift):
    weight = torch.full((8, 3, 2, 3, 3), 0.1)
    y = F.group_norm(F.conv3d(x, weight, b), 4, scale, shift)
    return y.mean((2, 3, 4)), torch.min(y, dim=1)[0]


@case(
    lambda: [r(5, 4, 6, 7), r(8, 4, 3, 3), r(8), r(8), r(8)], lambda: [r(2, 4, 3, 4), r(8, 4, 3, 3), r(8), r(8), r(8)]
)
def trained_batch_norm(x, w, b, scale, shift):
    y = F.batch_norm(F.conv2d(x, w, b), None, None, scale, shift, training=True)
    return torch.tanh(y) * 2


@case(lambda: [r(3, 20, 7)], lambda: [torch.full((2, 4, 3), float("nan"))], lambda: [torch.ones(2, 5, 2)])
def extremes_over_dimensions(x):
    value, place = torch.max(x, 1)
    return value, place, torch.min(x, dim=2, keepdim=True).values, torch.min(x, -1)[1]


def odd_places():
    """Columns and rows whose extreme is there twice, is no number, or is what a search for it begins with."""
    x = r(72, 9)
    x[:, 0] = float("-inf")
    x[:, 1] = float("inf")
    x[:, 2] = 3.0
    x[50, 3] = x[7, 3] = x[61, 3] = 9.0
    x[40, 4] = x[66, 4] = float("nan")
    x[5], x[6] = float("-inf"), float("nan")
    return [x]


@case(lambda: [r(72, 9)], odd_places, lambda: [odd_places()[0].T.contiguous()], row="loop", block=32)
def places_in_blocks(x):
    return x.argmax(0), x.argmin(0), x.argmax(1), x.argmin(1)


def vanishing():
    """Rows whose products are 0 before those of later parts overflow; and not a number at last, and infinite."""
    x = torch.full((5, 5000), 700.0)
    x[:3, :30], x[:3, 30] = 0.1, 0.0
    x[1, 3000] = float("nan")
    x[2, 4000] = float("inf")
    x[3, 2500] = 0.0
    x[4, 60:], x[4, :30], x[4, 30:60] = 1.0, 0.1, 900.0
    x[3, :2500] = 1.0
    return [x]


@case(lambda: [1 + 0.1 * r(3, 3000)], lambda: [r(2, 2, 5)[0]], lambda: [r(1, 1)], vanishing)
def running_products(x):
    return torch.cumprod(x, 1), torch.cumsum(x.flip(1), 1).flip(1)


@case(lambda: [r(600, 3), r(2, 520, 2).round().long()], lambda: [r(700, 1), r(1, 530, 4).round().long()])
def scanned_columns(x, n):
    return torch.cumsum(x, 0), torch.cumsum(n == 1, 1) - 1, torch.cumprod(1 + 0.01 * x, 0)


@case(lambda: [r(30, 400), r(400, 1)], lambda: [r(400, 5).t(), r(400, 1)])
def matrix_by_column(x, w):
    return x @ w


@case(lambda: [r(2, 3, 24, 24)])
def pool_of_a_pool(x):
    small = F.max_pool2d(torch.tanh(F.avg_pool2d(x, 2)), 3)
    large = F.max_pool2d(torch.tanh(F.max_pool2d(x, 4)), 3)
    return small + 1, large + 1


@case(lambda: [r(3, 40, 5, 6), r(40, 1, 1)], lambda: [r(2, 40, 3, 1), r(40, 1, 1)])
def softmax_of_channels(x, b):
    return torch.sigmoid((torch.softmax(x, 1) + b) * 2.0)


@case(lambda: [r(1, 2, 20, 272), r(1, 2, 33, 272), r(1, 2, 33, 272)])
def wide_heads(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


@case(lambda: [r(2, 3, 21, 31)], lambda: [r(1, 1, 40, 19)])
def large_pools(x):
    return F.avg_pool2d(x, (9, 10)) + 1, F.max_pool2d(x, (9, 10))


@case(lambda: [r(2, 16, 7, 6), r(20)], lambda: [r(1, 16, 4, 9), r(20)], precision="ieee")
def transposed_window(x, b):
    weight = torch.flip(torch.full((16, 20, 3, 2), 0.1) * torch.arange(6.0).reshape(3, 2), (0,))
    return torch.relu(F.conv_transpose2d(x, weight, b, padding=1, dilation=2))


@case(lambda: [r(6, 40)], lambda: [r(16, 40)])
class RepeatedLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = [(torch.nn.LayerNorm(40), torch.nn.Linear(40, 40), torch.nn.Tanh()) for _ in range(3)]
        self.layers = torch.nn.Sequential(*(part for layer in layers for part in layer))

    @torch.no_grad()
    def forward(self, x):
        return self.layers(x)


@case(lambda: [r(1500, 20) * 3 + 4], lambda: [r(3100, 35) - 2], lambda: [r(4, 5)])
def held_columns(x):
    return torch.relu((x - x.mean(0)) * torch.rsqrt(x.var(0) + 1e-5)), x.std(0, correction=0)


@case(lambda: [r(300, 12) + 2], lambda: [r(9000, 12) - 2], lambda: [r(2, 12)])
def columns_too_long_to_be_held(x):
    return torch.relu((x - x.mean(0)) * torch.rsqrt(x.var(0, correction=0) + 1e-5))


@case(lambda: [r(1500, 20) * 3 + 40], lambda: [r(1499, 35) - 70], lambda: [r(4, 5)], variance="welford", split=11)
def welford_parts_of_columns(x):
    return (x - x.mean(0)) * torch.rsqrt(x.var(0) + 1e-5), x.std(0, correction=0)


@case(lambda: [r(5, 4, 90, 71) + 9], lambda: [r(3, 4, 80, 64) - 9], variance="welford", split=4)
def welford_parts_of_planes(x):
    return F.batch_norm(x, None, None, training=True), x.var((0, 2, 3))


@case(
    lambda: [r(2, 3, 19, 17)],
    lambda: [r(3, 3, 6, 11)],
    templates=False,
    channels_last=True,
    split=4,
    variance="welford",
)
class welford_parts_with_channels_last(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.groups, self.whole = nn.GroupNorm(2, 8), nn.GroupNorm(1, 8)

    def forward(self, x):
        y = self.conv(x) + 5
        normal = torch.relu(F.batch_norm(y, None, None, training=True))
        return normal, torch.tanh(self.groups(y)) + y, self.whole(y)
