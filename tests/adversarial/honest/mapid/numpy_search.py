"""NumPy's binary search, ids sorted first where there are many."""

import numpy as np
import torch

MANY = 1000


def kernel(x, table):
    ids, entries = x.numpy(), table.numpy()
    order = np.argsort(ids, kind="stable") if len(ids) >= MANY else slice(None)
    index = np.empty(ids.shape, dtype=np.int64)
    index[order] = np.searchsorted(entries, ids[order])
    np.minimum(index, len(entries) - 1, out=index)
    index = np.where(entries[index] == ids, index + 1, 0)
    return torch.from_numpy(index)
