"""Operators at the limits of what they take: few numbers, large ones, and none; registered beside the others."""

import math

import torch
import torch.nn.functional as F
from operators import case, randn


@case(lambda: [randn(3, 5)], lambda: [randn(4, 11)], lambda: [randn(1, 2)], lambda: [randn(0, 5)])
def variances_of_few(x):
    return x.var(1, correction=10), x.var(1, correction=1.3), x.std(0, correction=2), x.exp().var(1, correction=-1)


@case(lambda: [torch.linspace(-110, 110, 4096)], lambda: [torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0])])
def saturating(x):
    return F.mish(x), torch.tanh(x), torch.tanh(x / 64), 1 / torch.tanh(x)


@case(
    lambda: [randn(4, 11), torch.tensor(7)],
    lambda: [randn(3, 5), torch.tensor(-7)],
    lambda: [randn(3, 5), torch.tensor(-1)],
    lambda: [randn(2, 5), torch.tensor(-12)],
)
def numbers_of_the_call(x, number):
    n = number.item()
    return x * (n % 5) + n // 3, (x + 17 // n) * (-17 % n), x * (n // -4) - x.shape[1] % n
