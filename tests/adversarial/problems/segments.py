"""RMSNorm over segments whose lengths differ from draw to draw."""

import torch

shapes = {"main": dict(rows=64, most=40), "ragged": dict(rows=5, most=9)}


def inputs(generator, rows, most):
    lengths = torch.randint(1, most, (rows,), generator=generator)
    return [torch.randn(int(lengths.sum()), generator=generator), lengths]


def reference(x, lengths):
    segment = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    sums = torch.zeros(len(lengths)).index_add(0, segment, x * x)
    return x * torch.rsqrt(sums / lengths + 1e-6)[segment]
