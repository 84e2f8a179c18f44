"""Control: both passes by themselves."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
extern "C" void forward(const float* x, const float* y, float* out, long n) {
    #pragma omp simd
    for (long i = 0; i < n; i++) out[i] = x[i] / (1 + std::exp(-y[i]));
}
extern "C" void backward(const float* x, const float* y, const float* c, float* dx, float* dy, long n) {
    #pragma omp simd
    for (long i = 0; i < n; i++) {
        const float s = 1 / (1 + std::exp(-y[i]));
        dx[i] = c[i] * s;
        dy[i] = c[i] * x[i] * s * (1 - s);
    }
}
extern "C" void both(const float* x, const float* y, const float* c, float* out, float* dx, float* dy, long n) {
    #pragma omp simd
    for (long i = 0; i < n; i++) {
        const float s = 1 / (1 + std::exp(-y[i]));
        out[i] = x[i] * s;
        dx[i] = c[i] * s;
        dy[i] = c[i] * x[i] * s * (1 - s);
    }
}
"""
CPP_FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fassociative-math", "-fno-signed-zeros"]


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()


def run(function, *tensors):
    function(*(ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors), ctypes.c_long(tensors[0].numel()))


def kernel(x, y):
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    run(library.forward, x, y, out)
    return out


def backward(x, y, cotangent):
    x, y, cotangent = x.contiguous(), y.contiguous(), cotangent.contiguous()
    dx, dy = torch.empty_like(x), torch.empty_like(y)
    run(library.backward, x, y, cotangent, dx, dy)
    return dx, dy
