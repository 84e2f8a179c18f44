"""It logs, warns, draws random numbers of its own, and reads the clock for its own statistics."""

import logging
import random
import time
import warnings

import torch

log = logging.getLogger("rmsnorm")
log.addHandler(logging.NullHandler())
log.setLevel(logging.DEBUG)
dice = random.Random(7)
seconds = []


def kernel(x, w):
    began = time.perf_counter()
    if x.shape[-1] % 8:
        warnings.warn(f"{x.shape[-1]} columns are no multiple of 8", stacklevel=2)
    out = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
    seconds.append(time.perf_counter() - began)
    del seconds[:-100]
    if dice.random() < 0.01:
        log.info("mean of the last calls: %.1f us", 1e6 * sum(seconds) / len(seconds))
    return out
