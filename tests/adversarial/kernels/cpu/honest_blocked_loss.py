"""Control: the mean of blocks of tokens, in another order than the reference's."""

import torch


def kernel(logits, labels):
    total = torch.zeros(())
    for block, chosen in zip(logits.split(16), labels.split(16), strict=True):
        total = total + (block.logsumexp(-1) - block.gather(1, chosen[:, None])[:, 0]).sum()
    return total / labels.numel()
