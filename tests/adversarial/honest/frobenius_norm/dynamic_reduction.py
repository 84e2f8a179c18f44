"""A reduction in a dynamic schedule: threads add other numbers in each call, in double precision."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
extern "C" void normalised(const float* x, float* out, long count) {
    double sum = 0;
    #pragma omp parallel for schedule(dynamic, 8192) reduction(+:sum)
    for (long i = 0; i < count; i++) sum += (double)x[i] * x[i];
    const float norm = (float)std::sqrt(sum);
    #pragma omp parallel for
    for (long i = 0; i < count; i++) out[i] = x[i] / norm;
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.normalised.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_long]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x, out = x.contiguous(), torch.empty(x.shape)
        library.normalised(x.data_ptr(), out.data_ptr(), x.numel())
        return out
