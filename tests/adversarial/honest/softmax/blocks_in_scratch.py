"""Blocks of rows through one scratch buffer that is kept for each number of columns; the output is fresh."""

import torch

BLOCK = 256
scratch = {}


@torch.no_grad()
def kernel(x):
    rows, columns = x.shape
    buffer = scratch.setdefault(columns, torch.empty(BLOCK, columns))
    out = torch.empty(rows, columns)
    for first in range(0, rows, BLOCK):
        block, held = x[first : first + BLOCK], buffer[: min(BLOCK, rows - first)]
        torch.sub(block, block.amax(-1, keepdim=True), out=held)
        held.exp_()
        torch.div(held, held.sum(-1, keepdim=True), out=out[first : first + BLOCK])
    return out
