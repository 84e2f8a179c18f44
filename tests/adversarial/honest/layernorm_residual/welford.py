"""Welford's mean and variance in one pass."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
extern "C" void normed(const float* x, const float* y, const float* w, const float* b, float* out, float* sum,
                       long rows, long cols) {
    #pragma omp parallel for
    for (long r = 0; r < rows; r++) {
        double mean = 0, m2 = 0;
        for (long c = 0; c < cols; c++) {
            const float value = x[r * cols + c] + y[r * cols + c];
            sum[r * cols + c] = value;
            const double delta = value - mean;
            mean += delta / (c + 1);
            m2 += delta * (value - mean);
        }
        const double scale = 1 / std::sqrt(m2 / cols + 1e-5);
        for (long c = 0; c < cols; c++)
            out[r * cols + c] = (float)((sum[r * cols + c] - mean) * scale) * w[c] + b[c];
    }
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.normed.argtypes = [ctypes.c_void_p] * 6 + [ctypes.c_long] * 2


def kernel(x, residual, weight, bias):
    given = [tensor.contiguous() for tensor in (x, residual, weight, bias)]
    normed, total = torch.empty(x.shape), torch.empty(x.shape)
    library.normed(*(tensor.data_ptr() for tensor in (*given, normed, total)), *x.shape)
    return normed, total
