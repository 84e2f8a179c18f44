"""Row by row: entropy term and cross term apart, each in double precision."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        p, q = predictions.double(), targets.double()
        rows = (torch.xlogy(q, q) - q * p.log()).sum(-1)
        return (rows.sum() / len(p)).to(predictions.dtype)
