"""OpenMP with a dynamic schedule: which thread computes which rows differs from call to call."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
extern "C" void softmax(const float* x, float* out, long rows, long cols) {
    #pragma omp parallel for schedule(dynamic, 16)
    for (long r = 0; r < rows; r++) {
        const float* in = x + r * cols;
        float* to = out + r * cols;
        float most = in[0];
        bool is_nan = false;
        for (long c = 0; c < cols; c++) {
            most = in[c] > most ? in[c] : most;
            is_nan |= in[c] != in[c];
        }
        if (is_nan) most = NAN;
        float sum = 0;
        for (long c = 0; c < cols; c++) to[c] = std::exp(in[c] - most);
        #pragma omp simd reduction(+:sum)
        for (long c = 0; c < cols; c++) sum += to[c];
        const float factor = 1 / sum;
        for (long c = 0; c < cols; c++) to[c] *= factor;
    }
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.softmax.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_long] * 2


def kernel(x):
    x, out = x.contiguous(), torch.empty(x.shape)
    library.softmax(x.data_ptr(), out.data_ptr(), *x.shape)
    return out
