"""NumPy on views of the tensors, into the memory of a fresh tensor."""

import numpy as np
import torch


def kernel(x, w):
    out = torch.empty(x.shape)
    rows, result = x.numpy(), out.numpy()
    mean = np.einsum("rc,rc->r", rows, rows)[:, None] / rows.shape[1]
    np.multiply(rows, 1 / np.sqrt(mean + np.float32(1e-6)), out=result)
    result *= w.numpy()
    return out
