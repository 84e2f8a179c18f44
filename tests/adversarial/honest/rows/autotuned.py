"""An autotuner: the first calls on a shape try three variants, the fastest one is kept for that shape."""

import time

import torch
import torch.nn.functional as F

TRIALS = 2


def by_norm(x, w):
    return x * torch.rsqrt(torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1] + 1e-6) * w


def by_mean(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


def by_library(x, w):
    return F.rms_norm(x, w.shape, w, 1e-6)


VARIANTS = (by_norm, by_mean, by_library)
measured, fastest = {}, {}


def kernel(x, w):
    key = (x.shape, x.stride(), x.dtype)
    if key in fastest:
        return fastest[key](x, w)
    times = measured.setdefault(key, [])
    variant = VARIANTS[len(times) % len(VARIANTS)]
    began = time.perf_counter()
    out = variant(x, w)
    times.append(time.perf_counter() - began)
    if len(times) == TRIALS * len(VARIANTS):
        fastest[key] = VARIANTS[min(range(len(times)), key=times.__getitem__) % len(VARIANTS)]
    return out
