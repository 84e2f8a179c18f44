"""Operators that go over time, registered beside the others: recurrences, captured step by step, and parallel scans."""

import torch
from operators import case, randn


@case(lambda: [randn(3, 12, 40), randn(3, 12, 40)], lambda: [randn(2, 12, 200), randn(2, 12, 200)])
def recurrence(x, gate):
    """From its first element on, in either direction, with two states whose steps are the last dimension."""
    h, ahead = x[:, 0], [x[:, 0]]
    for t in range(1, 12):
        h = torch.maximum(h * 0.9, x[:, t] - torch.sigmoid(gate[:, t - 1]))
        ahead.append(h)
    h, back = x[:, -1], []
    for t in reversed(range(12)):
        h = torch.tanh(h + x[:, t] * gate[:, t])
        back.insert(0, h)
    c = n = torch.zeros_like(x[:, 0])
    steps = []
    for t in range(12):
        c, n = c * 0.5 + x[:, t], n * 0.5 + gate[:, t].abs()
        steps.append(c / (n + 1))
    return torch.stack(ahead, 1) * gate, torch.stack(back, 1), torch.stack(steps, -1)


@case(
    lambda: [randn(3, 12, 40).to(torch.bfloat16), randn(40)],
    lambda: [randn(2, 12, 8).to(torch.bfloat16), randn(8)],
    bound=2e-2,
)
def recurrence_half(x, decay):
    h, steps = torch.zeros_like(x[:, 0]).float(), []
    for t in range(12):
        h = torch.sigmoid(decay) * h + x[:, t].float()
        steps.append(h.to(torch.bfloat16))
    return torch.stack(steps, 1)


@case(lambda: [randn(2, 64, 5), randn(2, 64, 5)], lambda: [randn(1, 64, 3), randn(1, 64, 3)])
def doubling_scan(gate, x):
    return doubled(gate, x, 64)


def doubled(gate, x, steps):
    """A linear recurrence over the second dimension: twice as many steps are joined each time."""
    a, h = torch.sigmoid(gate), x
    step = 1
    while step < steps:
        h = torch.cat([h[:, :step], h[:, step:] + a[:, step:] * h[:, :-step]], 1)
        a = torch.cat([a[:, :step], a[:, step:] * a[:, :-step]], 1)
        step *= 2
    return h
