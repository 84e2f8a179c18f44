"""One fused loop, small pieces in a dynamic schedule."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
extern "C" void gelu(const float* x, float* out, long count) {
    #pragma omp parallel for schedule(dynamic, 4096)
    for (long i = 0; i < count; i++) {
        const float value = x[i];
        const float inner = 0.7978845608028654f * (value + 0.044715f * value * value * value);
        out[i] = 0.5f * value * (1.0f + std::tanh(inner));
    }
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.gelu.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_long]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x, out = x.contiguous(), torch.empty(x.shape)
        library.gelu(x.data_ptr(), out.data_ptr(), x.numel())
        return out
