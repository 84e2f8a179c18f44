"""PFFN in half precision, for a GPU: a feed-forward block with weights of its own for every sample, normed twice.

``rms(bmm(rms(gelu(bmm(x, w1) + b1)), w2) + b2)``, the second norm with a gain.

Source: personalised feed-forward network of InterFormer, a case study of KernelEvolve (Meta, 2025) at its published
shape: (B, N, D, K) = (1024, 200, 256, 160); the others are (1024, 200, 192, 96), (1024, 400, 256, 160) and
(1024, 150, 96, 192).
"""

import torch
import torch.nn.functional as F

EPS = 1e-6

shapes = {
    "main": {"batch": 1024, "tokens": 200, "width": 256, "hidden": 160},
    "ragged": {"batch": 3, "tokens": 37, "width": 50, "hidden": 33},
    "small": {"batch": 2, "tokens": 5, "width": 7, "hidden": 3},
    "one_token": {"batch": 4, "tokens": 1, "width": 16, "hidden": 24},
}


def inputs(generator: torch.Generator, batch: int, tokens: int, width: int, hidden: int) -> list[torch.Tensor]:
    x = torch.randn(batch, tokens, width, generator=generator)
    w1 = torch.randn(batch, width, hidden, generator=generator) * width**-0.5
    b1 = 0.1 * torch.randn(batch, 1, hidden, generator=generator)
    w2 = torch.randn(batch, hidden, width, generator=generator) * hidden**-0.5
    b2 = 0.1 * torch.randn(batch, 1, width, generator=generator)
    gain = 1 + 0.2 * torch.randn(width, generator=generator)
    return [part.half() for part in (x, w1, b1, w2, b2, gain)]


def reference(
    x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor, gain: torch.Tensor
) -> torch.Tensor:
    hidden = F.rms_norm(F.gelu(torch.bmm(x, w1) + b1), (w1.shape[-1],), eps=EPS)
    return F.rms_norm(torch.bmm(hidden, w2) + b2, (w2.shape[-1],), gain, eps=EPS)
