"""The two halves are multiplied apart and written into a fresh output."""

import torch


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    out = torch.empty(x.shape, dtype=x.dtype)
    torch.sub(left * cos[..., :half], right * sin[..., :half], out=out[..., :half])
    torch.add(right * cos[..., half:], left * sin[..., half:], out=out[..., half:])
    return out


@torch.no_grad()
def kernel(query, key, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    return rotated(query, cos, sin), rotated(key, cos, sin)
