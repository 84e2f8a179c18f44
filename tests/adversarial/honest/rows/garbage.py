"""Many small tensors that refer to each other in circles, collected in every tenth call."""

import gc
import itertools

import torch

calls = itertools.count(1)


class Row:
    def __init__(self, values, parent):
        self.values, self.parent = values, parent
        parent.append(self)

    def normalised(self):
        return self.values * torch.rsqrt(self.values.pow(2).mean() + 1e-6)


def kernel(x, w):
    rows = []
    for values in x.unbind():
        Row(values, rows)
    out = torch.stack([row.normalised() for row in rows]) * w
    if next(calls) % 10 == 0:
        gc.collect()
    return out
