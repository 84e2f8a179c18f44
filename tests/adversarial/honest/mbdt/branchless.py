"""A branchless binary search, features in a dynamic schedule."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cstdint>
extern "C" void buckets(const float* x, const float* limits, int64_t* out, long features, long batch, long borders) {
    #pragma omp parallel for schedule(dynamic)
    for (long f = 0; f < features; f++) {
        const float* row = limits + f * borders;
        for (long i = 0; i < batch; i++) {
            const float value = x[f * batch + i];
            const float* base = row;
            long left = borders;
            while (left > 1) {
                const long half = left / 2;
                base = base[half - 1] > value ? base : base + half;
                left -= half;
            }
            out[f * batch + i] = base - row + !(*base > value);
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
library.buckets.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3


def kernel(x, borders):
    x, borders = x.contiguous(), borders.contiguous()
    out = torch.empty(x.shape, dtype=torch.int64)
    library.buckets(x.data_ptr(), borders.data_ptr(), out.data_ptr(), *x.shape, borders.shape[1])
    return out
