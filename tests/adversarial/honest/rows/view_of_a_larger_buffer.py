"""Outputs are views of fresh memory that is larger than they are, with padded rows."""

import torch

ALIGNED = 16


@torch.no_grad()
def kernel(x, w):
    rows, columns = x.shape
    pitch = -(-columns // ALIGNED) * ALIGNED + ALIGNED
    out = torch.empty(rows + 2, pitch)[1 : rows + 1, :columns]
    torch.mul(x, torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), out=out)
    return out.mul_(w)
