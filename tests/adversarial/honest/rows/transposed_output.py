"""It works on the transposed matrix, and the output keeps that layout: its rows are strided."""

import torch


def kernel(x, w):
    columns = x.t().contiguous()
    scale = torch.rsqrt(columns.square().sum(0) / columns.shape[0] + 1e-6)
    return (columns * scale * w[:, None]).t()
