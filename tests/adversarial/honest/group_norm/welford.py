"""Welford's algorithm in double precision, a group for each iteration of the parallel loop."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
extern "C" void norm(const float* x, const float* weight, const float* bias, float* out, long images, long channels,
                     long groups, long pixels) {
    const long each = channels / groups, count = each * pixels;
    #pragma omp parallel for
    for (long g = 0; g < images * groups; g++) {
        const float* in = x + g * count;
        double mean = 0, m2 = 0;
        for (long i = 0; i < count; i++) {
            const double delta = in[i] - mean;
            mean += delta / (i + 1);
            m2 += delta * (in[i] - mean);
        }
        const double scale = 1 / std::sqrt(m2 / count + 1e-5);
        for (long i = 0; i < count; i++) {
            const long c = g % groups * each + i / pixels;
            out[g * count + i] = (float)((in[i] - mean) * scale) * weight[c] + bias[c];
        }
    }
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.norm.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_long] * 4


class ModelNew(torch.nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.gn = torch.nn.GroupNorm(groups, channels)

    @torch.no_grad()
    def forward(self, x):
        x, out = x.contiguous(), torch.empty(x.shape)
        pointers = (tensor.data_ptr() for tensor in (x, self.gn.weight, self.gn.bias, out))
        library.norm(*pointers, *x.shape[:2], self.gn.num_groups, x[0, 0].numel())
        return out
