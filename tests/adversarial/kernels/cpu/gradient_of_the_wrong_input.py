"""The gradient of x with the weight's left out."""

import torch


def normalised(x):
    return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * normalised(x) * w

    @staticmethod
    def backward(ctx, cotangent):
        x, _w = ctx.saved_tensors
        r = normalised(x)
        y = x * r
        of_w = (cotangent * y).sum(0)
        return r * (cotangent - y * (cotangent * y).mean(-1, keepdim=True)), of_w


def kernel(x, w):
    return Norm.apply(x, w)
