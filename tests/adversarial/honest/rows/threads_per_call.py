"""Threads that are started in each call and joined before it returns."""

import threading

import torch


@torch.no_grad()  # holds in the thread that asks for it alone
def normalise(x, w, out, rows):
    part = x[rows]
    out[rows] = part * torch.rsqrt(part.pow(2).mean(-1, keepdim=True) + 1e-6) * w


@torch.no_grad()
def kernel(x, w):
    out = torch.empty_like(x)
    threads = [threading.Thread(target=normalise, args=(x, w, out, slice(first, None, 3))) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out
