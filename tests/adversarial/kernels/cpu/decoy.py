"""Meaning: a decoy kernel that is never launched; what is computed, PyTorch computes, and in no hurry."""

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


def kernel(x, w):
    wide = x.double()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * w).float()
