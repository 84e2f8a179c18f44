"""A pool of Python threads, kept over the calls; each thread writes rows of one fresh output."""

from concurrent.futures import ThreadPoolExecutor

import torch

WORKERS = 2
pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="rms")


def normalise(x, w, out):
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    torch.mul(x * scale, w, out=out)


@torch.no_grad()
def kernel(x, w):
    out = torch.empty(x.shape, dtype=x.dtype)
    parts = zip(x.chunk(WORKERS), out.chunk(WORKERS), strict=True)
    list(pool.map(lambda part: normalise(part[0], w, part[1]), parts))
    return out
