"""Samples in parts whose inner product fits the cache; the scratch of the products is kept."""

import torch

PART = 4
scratch = {}


@torch.no_grad()
def kernel(x, y):
    batch, features, width = x.shape
    compressed = y.shape[2]
    key = (width, compressed, x.dtype)
    inner = scratch.setdefault(key, torch.empty(PART, width, compressed, dtype=x.dtype))
    out = torch.empty(batch, features, compressed, dtype=x.dtype)
    for first in range(0, batch, PART):
        part = x[first : first + PART]
        held = inner[: len(part)]
        torch.bmm(part.mT, y[first : first + PART], out=held)
        torch.bmm(part, held, out=out[first : first + PART])
    return out
