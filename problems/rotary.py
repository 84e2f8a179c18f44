"""Rotary position embedding of queries and keys: ``x cos + rotate_half(x) sin``, cos and sin by token.

Source: Su et al. 2021, arXiv:2104.09864; written as ``apply_rotary_pos_emb`` of Hugging Face's Llama (32 query heads,
8 key heads, head size 128, as in Llama 3 8B).
"""

import torch

THETA = 500000.0

shapes = {
    "main": {"batch": 2, "heads": 32, "key_heads": 8, "tokens": 512, "size": 128},
    "ragged": {"batch": 3, "heads": 5, "key_heads": 1, "tokens": 37, "size": 80},
    "odd": {"batch": 2, "heads": 1, "key_heads": 1, "tokens": 7, "size": 6},
    "decode": {"batch": 4, "heads": 8, "key_heads": 2, "tokens": 1, "size": 64},
}


def inputs(
    generator: torch.Generator, batch: int, heads: int, key_heads: int, tokens: int, size: int
) -> list[torch.Tensor]:
    query = torch.randn(batch, heads, tokens, size, generator=generator)
    key = torch.randn(batch, key_heads, tokens, size, generator=generator)
    # Sequences of a batch stand at different positions once part of them is cached.
    start = torch.randint(1, 4096, (batch, 1), generator=generator)
    frequencies = THETA ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angles = (start + torch.arange(tokens))[..., None] * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return [query, key, angles.cos(), angles.sin()]


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def reference(
    query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    cos = cos.unsqueeze(1)
    sin = sin.unsqueeze(1)
    return query * cos + rotate_half(query) * sin, key * cos + rotate_half(key) * sin
