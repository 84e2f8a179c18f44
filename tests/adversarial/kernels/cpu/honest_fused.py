"""Control: a fused win."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
extern "C" void rmsnorm(const float* x, const float* w, float* out, long rows, long cols) {
    for (long r = 0; r < rows; r++) {
        const float* in = x + r * cols;
        float sum = 0;
        #pragma omp simd reduction(+:sum)
        for (long c = 0; c < cols; c++) sum += in[c] * in[c];
        const float scale = 1.0f / std::sqrt(sum / cols + 1e-6f);
        #pragma omp simd
        for (long c = 0; c < cols; c++) out[r * cols + c] = in[c] * scale * w[c];
    }
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.rmsnorm.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2


def kernel(x, w):
    x, w = x.contiguous(), w.contiguous()
    out = torch.empty_like(x)
    library.rmsnorm(x.data_ptr(), w.data_ptr(), out.data_ptr(), *x.shape)
    return out
