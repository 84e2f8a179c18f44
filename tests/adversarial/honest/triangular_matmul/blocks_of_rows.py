"""Blocks of rows, each with the columns up to its last row alone, into a fresh output."""

import torch
from torch import nn

BLOCK = 64


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, a, b):
        rows = a.shape[0]
        out = torch.zeros(rows, b.shape[1])
        for first in range(0, rows, BLOCK):
            last = min(rows, first + BLOCK)
            # What lies above the diagonals may hold anything, infinities included, that the whole product sees.
            torch.mm(a[first:last], b[:, :last], out=out[first:last, :last])
        return out.tril_()
