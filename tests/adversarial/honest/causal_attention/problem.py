"""Causal attention with its projections, as in small GPT models."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width, heads, tokens):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.register_buffer("bias", torch.tril(torch.ones(tokens, tokens)).view(1, 1, tokens, tokens))
        self.heads = heads

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (
            one.view(batch, tokens, self.heads, -1).transpose(1, 2) for one in self.c_attn(x).split(width, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.shape[-1])
        scores = scores.masked_fill(self.bias[:, :, :tokens, :tokens] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, tokens, width))


def get_inputs():
    return [torch.randn(4, 96, 64)]


def get_init_inputs():
    return [64, 4, 96]
