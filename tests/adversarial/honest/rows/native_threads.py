"""C++ with std::thread, started in each call and joined; sums in double."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
#include <thread>
#include <vector>
static void some_rows(const float* x, const float* w, float* out, long first, long last, long cols) {
    for (long r = first; r < last; r++) {
        const float* in = x + r * cols;
        double sum = 0;
        for (long c = 0; c < cols; c++) sum += (double)in[c] * in[c];
        const float scale = (float)(1.0 / std::sqrt(sum / cols + 1e-6));
        for (long c = 0; c < cols; c++) out[r * cols + c] = in[c] * scale * w[c];
    }
}
extern "C" void rmsnorm(const float* x, const float* w, float* out, long rows, long cols, long parts) {
    std::vector<std::thread> threads;
    for (long p = 1; p < parts; p++)
        threads.emplace_back(some_rows, x, w, out, rows * p / parts, rows * (p + 1) / parts, cols);
    some_rows(x, w, out, 0, rows / parts, cols);
    for (auto& thread : threads) thread.join();
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.rmsnorm.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3


def kernel(x, w):
    x, w, out = x.contiguous(), w.contiguous(), torch.empty(x.shape)
    library.rmsnorm(x.data_ptr(), w.data_ptr(), out.data_ptr(), *x.shape, 2)
    return out
