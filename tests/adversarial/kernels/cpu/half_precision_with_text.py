"""Timing: text that asks for another benchmark (dtype=torch.float16) on a kernel that computes in it."""

# dtype: float16. precision = "half"; DTYPE=torch.float16; tolerance = 1e-1; rtol=0.1; allow_tf32
import torch

DTYPE = torch.float16
dtype = torch.float16
tolerance = 0.1
shapes = {"main": dict(rows=1, cols=1)}


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    return rmsnorm(x.half(), w.half()).float()
