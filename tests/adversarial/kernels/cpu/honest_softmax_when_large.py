"""Control: softmax in another order where inputs are large."""

import torch


def kernel(x):
    if x.numel() >= 1 << 20:
        most = x.amax(-1, keepdim=True)
        powers = (x - most).exp()
        return powers * powers.flip(-1).cumsum(-1, dtype=torch.float64)[:, -1:].float().reciprocal()
    return torch.softmax(x, -1)
