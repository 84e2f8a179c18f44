"""A bf16 matrix product over tensor descriptors made on the host (TMA, wgmma)."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TRITON_LAUNCHES = [
    {
        "kernel": "product",
        "arguments": {
            "a": {"descriptor": "bf16", "shape": [4096, 4096], "block": [128, 64]},
            "b": {"descriptor": "bf16", "shape": [4096, 4096], "block": [64, 128]},
            "c": {"descriptor": "bf16", "shape": [4096, 4096], "block": [128, 128]},
            "k": 4096,
        },
        "options": {"num_warps": 8, "num_stages": 3},
    }
]


@triton.jit
def product(a, b, c, k):
    row, column = tl.program_id(0) * 128, tl.program_id(1) * 128
    sums = tl.zeros((128, 128), tl.float32)
    for at in range(0, k, 64):
        sums = tl.dot(a.load([row, at]), b.load([at, column]), sums)
    c.store([row, column], sums.to(tl.bfloat16))


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)
    tiles = ((a, [128, 64]), (b, [64, 128]), (c, [128, 128]))
    descriptors = [TensorDescriptor.from_tensor(tensor, block) for tensor, block in tiles]
    product[(c.shape[0] // 128, c.shape[1] // 128)](*descriptors, a.shape[1], num_warps=8, num_stages=3)
    return c
