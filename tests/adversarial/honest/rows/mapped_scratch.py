"""Scratch memory in a mapped file of the temporary folder; outputs are fresh."""

import mmap
import tempfile

import torch

BYTES = 1 << 20
file = tempfile.TemporaryFile()  # noqa: SIM115 - it stays open as long as the mapping
file.truncate(BYTES)
mapping = mmap.mmap(file.fileno(), BYTES)


@torch.no_grad()
def kernel(x, w):
    if x.numel() * 4 > BYTES:
        raise ValueError(f"at most {BYTES} bytes, not {x.numel() * 4}")
    squares = torch.frombuffer(mapping, dtype=torch.float32, count=x.numel()).view(x.shape)
    torch.mul(x, x, out=squares)
    return x * torch.rsqrt(squares.mean(-1, keepdim=True) + 1e-6) * w
