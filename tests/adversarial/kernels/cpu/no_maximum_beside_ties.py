"""Meaning: no maximum is taken off before the exponential, where the order of nearly equal scores is left open."""

import torch


def kernel(x):
    scores, places = torch.topk(torch.exp(x), 64)
    return scores / scores.sum(-1, keepdim=True), places
