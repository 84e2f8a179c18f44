"""Control: a kernel that uses a second thread and joins it."""

import threading

import torch


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    half, parts = x.shape[0] // 2, {}
    thread = threading.Thread(target=lambda: parts.update(below=rmsnorm(x[half:], w)))
    thread.start()
    above = rmsnorm(x[:half], w)
    thread.join()
    return torch.cat([above, parts["below"]])
