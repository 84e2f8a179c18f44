"""RMSNorm over rows, bf16: a Triton candidate with its list of launches, whose regions Proton can time."""

import torch
import triton
import triton.language as tl
import triton.profiler.language as pl

TRITON_LAUNCHES = [
    {
        "kernel": "rows",
        "arguments": {"x": "*bf16", "out": "*bf16", "columns": 8192, "eps": 1e-06, "BLOCK": 8192},
        "options": {"num_warps": 8, "num_stages": 2},
    },
    {
        "kernel": "rows",
        "arguments": {"x": "*bf16", "out": "*bf16", "columns": 1000, "eps": 1e-06, "BLOCK": 1024},
        "options": {"num_warps": 4},
    },
]


@triton.jit
def rows(x, out, columns, eps, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * columns + column
    inside = column < columns
    pl.enter_scope("load")
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    pl.exit_scope("load")
    pl.enter_scope("reduce")
    scale = tl.rsqrt(tl.sum(value * value, 0) / columns + eps)
    pl.exit_scope("reduce")
    pl.enter_scope("store")
    tl.store(out + at, (value * scale).to(tl.bfloat16), mask=inside)
    pl.exit_scope("store")


def kernel(x):
    out = torch.empty_like(x)
    if x.shape[1] == 8192:
        rows[(x.shape[0],)](x, out, x.shape[1], 1e-06, BLOCK=8192, num_warps=8, num_stages=2)
    else:
        rows[(x.shape[0],)](x, out, x.shape[1], 1e-06, BLOCK=1024, num_warps=4)
    return out
