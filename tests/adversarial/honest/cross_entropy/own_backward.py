"""One function with its own backward pass; the loss in blocks of tokens, two passes over each."""

import torch

BLOCK = 64


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels):
        kept = labels != -100
        target = labels.where(kept, 0)[:, None]
        logs = torch.cat([block.logsumexp(-1) for block in logits.split(BLOCK)])
        losses = (logs - logits.gather(1, target)[:, 0]).where(kept, 0.0)
        ctx.save_for_backward(logits, target, logs, kept)
        return losses.sum() / kept.sum()

    @staticmethod
    def backward(ctx, cotangent):
        logits, target, logs, kept = ctx.saved_tensors
        gradient = torch.exp(logits - logs[:, None])
        gradient.scatter_add_(1, target, torch.full_like(target, -1, dtype=gradient.dtype))
        return gradient * (kept * (cotangent / kept.sum()))[:, None], None


kernel = CrossEntropy.apply
