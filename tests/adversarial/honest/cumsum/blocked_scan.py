"""A scan in blocks: sums within blocks, a scan of their totals, both added."""

import torch.nn.functional as F
from torch import nn

BLOCK = 32


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        x = x.movedim(self.dim, -1).flip(-1)
        count = x.shape[-1]
        blocks = F.pad(x, (0, -count % BLOCK)).unflatten(-1, (-1, BLOCK)).cumsum(-1)
        before = F.pad(blocks[..., -1].cumsum(-1), (1, -1))
        return (blocks + before[..., None]).flatten(-2)[..., :count].flip(-1).movedim(-1, self.dim)
