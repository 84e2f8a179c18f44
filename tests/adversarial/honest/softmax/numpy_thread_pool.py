"""NumPy in a pool of threads: its loops let go of Python's lock."""

from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import torch

BLOCK = 512
pool = ThreadPoolExecutor(2)


def softmax(x, out):
    np.subtract(x, x.max(-1, keepdims=True), out=out)
    np.exp(out, out=out)
    out /= out.sum(-1, keepdims=True)


def kernel(x):
    out = torch.empty(x.shape)
    given, result = x.numpy(), out.numpy()
    with np.errstate(all="ignore"):
        jobs = [
            pool.submit(softmax, given[row : row + BLOCK], result[row : row + BLOCK])
            for row in range(0, len(given), BLOCK)
        ]
        wait(jobs)
    for job in jobs:
        job.result()
    return out
