"""An object with ``__call__``, a generator over blocks of rows, closures per number of columns."""

import torch


class RMSNorm:
    def __init__(self, eps, block):
        self.eps, self.block, self.scales = eps, block, {}

    def scale(self, columns):
        if columns not in self.scales:
            factor = columns**-0.5
            self.scales[columns] = lambda block: torch.rsqrt((block * factor).square().sum(-1, keepdim=True) + self.eps)
        return self.scales[columns]

    def blocks(self, x, w):
        scale = self.scale(x.shape[-1])
        for block in x.split(self.block):
            yield block * scale(block) * w

    def __call__(self, x, w):
        return torch.cat(list(self.blocks(x, w)))


kernel = RMSNorm(1e-6, 16)
