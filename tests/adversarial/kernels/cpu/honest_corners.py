"""Sums in another order than the reference: some numbers lie on the other side of a corner."""

import torch


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, v):
        y = (x.flip(-1) @ w.flip(0)).unflatten(-1, (-1, 2))
        out = y.amax(-1).relu()
        ctx.save_for_backward(x, w, v, y, out)
        return out @ v

    @staticmethod
    def backward(ctx, c):
        x, w, v, y, out = ctx.saved_tensors
        best, place = y.max(-1)
        g, live = c @ v.T, (best > 0).float()
        share = torch.nn.functional.one_hot(place, 2).float()
        of_y = (g * live).unsqueeze(-1).mul(share).flatten(-2)
        return of_y @ w.T, x.T @ of_y, out.T @ c


def kernel(x, w, v):
    return Layer.apply(x, w, v)
