"""Each step is written into one fresh output, whose last row is returned as well, as a copy."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.gru = nn.GRU(features, hidden)

    @torch.no_grad()
    def forward(self, x, h):
        of, h = self.gru, h[0]
        inputs = torch.addmm(of.bias_ih_l0, x.flatten(0, 1), of.weight_ih_l0.t()).unflatten(0, x.shape[:2])
        out = torch.empty(*x.shape[:2], h.shape[1])
        for step, row in zip(inputs, out, strict=True):
            reset, update, new = step.chunk(3, 1)
            state = torch.addmm(of.bias_hh_l0, h, of.weight_hh_l0.t()).chunk(3, 1)
            fresh = torch.tanh(new + torch.sigmoid(reset + state[0]) * state[2])
            torch.lerp(fresh, h, torch.sigmoid(update + state[1]), out=row)
            h = row
        return out, h[None].clone()
