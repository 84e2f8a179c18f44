"""Launch arguments are kept by address and size, as wrappers of accelerators keep descriptors; answers are not."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
struct Launch {
    const float* x;
    long count;
};
extern "C" void gelu(const Launch* launch, float* out) {
    #pragma omp parallel for simd
    for (long i = 0; i < launch->count; i++) {
        const float value = launch->x[i];
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
library.gelu.argtypes = [ctypes.c_void_p] * 2


class Launch(ctypes.Structure):
    _fields_ = [("x", ctypes.c_void_p), ("count", ctypes.c_long)]


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._launches = {}

    def forward(self, x):
        x, out = x.contiguous(), torch.empty(x.shape)
        key = (x.data_ptr(), x.numel())
        if key not in self._launches:
            self._launches[key] = Launch(*key)
        library.gelu(ctypes.addressof(self._launches[key]), out.data_ptr())
        return out
