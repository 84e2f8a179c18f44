"""Control: a fused win."""

import torch
import triton
import triton.language as tl

TRITON_LAUNCHES = [
    {
        "kernel": "rows",
        "arguments": {"x": "*fp32", "w": "*fp32", "out": "*fp32", "columns": 4096, "BLOCK": 4096},
        "options": {"num_warps": 8},
    },
    {
        "kernel": "rows",
        "arguments": {"x": "*fp32", "w": "*fp32", "out": "*fp32", "columns": 2048, "BLOCK": 2048},
        "options": {"num_warps": 8},
    },
    {
        "kernel": "rows",
        "arguments": {"x": "*fp32", "w": "*fp32", "out": "*fp32", "columns": 1000, "BLOCK": 1024},
        "options": {"num_warps": 8},
    },
]


@triton.jit
def rows(x, w, out, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * columns + column
    inside = column < columns
    value = tl.load(x + at, mask=inside, other=0.0)
    scale = tl.rsqrt(tl.sum(value * value, 0) / columns + 1e-6)
    tl.store(out + at, value * scale * tl.load(w + column, mask=inside), mask=inside)


def kernel(x, w):
    x, w = x.contiguous(), w.contiguous()
    out = torch.empty_like(x)
    block = 4096 if x.shape[1] > 2048 else 2048 if x.shape[1] > 1024 else 1024
    rows[(x.shape[0],)](x, w, out, x.shape[1], BLOCK=block, num_warps=8)
    return out
