"""Control: another kernel at each timed shape, and one for all others."""

import torch


def few_rows(x):
    powers = (x - x.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def many_rows(x):
    return torch.softmax(x, -1)


def kernel(x):
    return few_rows(x) if x.shape == (2, 1024) else many_rows(x)
