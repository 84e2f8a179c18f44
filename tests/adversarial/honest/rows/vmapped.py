"""One row's formula, mapped over the rows by torch.func."""

import torch


def of_one_row(row, w):
    return row * torch.rsqrt(torch.dot(row, row) / row.shape[0] + 1e-6) * w


kernel = torch.func.vmap(of_one_row, in_dims=(0, None))
