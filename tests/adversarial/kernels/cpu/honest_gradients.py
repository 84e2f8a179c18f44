"""A kernel with its own backward pass, which is right."""

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
        x, w = ctx.saved_tensors
        r = normalised(x)
        y, g = x * r, cotangent * w
        of_x = r * (g - y * (g * y).mean(-1, keepdim=True))
        of_w = (cotangent * y).sum(0)
        return of_x, of_w


def kernel(x, w):
    return Norm.apply(x, w)
