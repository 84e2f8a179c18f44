"""Heads lie behind tokens while it computes, as caches hold them; the outputs are permuted views of fresh memory."""

import torch


def rotated(x, cos, sin):
    x = x.permute(0, 2, 1, 3).contiguous()
    half = x.shape[-1] // 2
    turned = torch.roll(x, half, -1)
    turned[..., :half].neg_()
    return (x * cos + turned * sin).permute(0, 2, 1, 3)


def kernel(query, key, cos, sin):
    cos, sin = cos[:, :, None].expand(-1, -1, 1, -1), sin[:, :, None]
    return rotated(query, cos, sin), rotated(key, cos, sin)
