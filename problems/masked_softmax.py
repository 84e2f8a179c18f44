"""Scaled and causally masked softmax: scores times ``1/sqrt(head size)``, future keys out, softmax over the keys.

Source: decoder attention of Vaswani et al. 2017, arXiv:1706.03762, section 3.2; written as in GPT-2's ``_attn``, which
fills masked scores with the lowest number of the type (8 heads of size 64, 1024 tokens).
"""

import torch
import torch.nn.functional as F

SCALE = 64**-0.5

shapes = {
    "main": {"heads": 8, "queries": 1024, "keys": 1024},
    "ragged": {"heads": 3, "queries": 37, "keys": 37},
    "cached": {"heads": 2, "queries": 5, "keys": 333},
    "small": {"heads": 2, "queries": 3, "keys": 3},
}


def inputs(generator: torch.Generator, heads: int, queries: int, keys: int) -> list[torch.Tensor]:
    scores = 16 * torch.randn(heads, queries, keys, generator=generator)
    allowed = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return [scores, allowed]


def reference(scores: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    scores = scores * SCALE
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    return F.softmax(scores, dim=-1)
