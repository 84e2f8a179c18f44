"""A tiled product: a thread sums tiles of the output in its own memory, tile by tile of the inner dimension."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <algorithm>
extern "C" void product(const float* a, const float* b, float* out, long n, long k, long m) {
    const long tile = 32;
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (long i0 = 0; i0 < n; i0 += tile)
        for (long j0 = 0; j0 < m; j0 += tile) {
            float sums[tile][tile] = {};
            const long rows = std::min(tile, n - i0), cols = std::min(tile, m - j0);
            for (long p0 = 0; p0 < k; p0 += tile) {
                float parts[tile][tile] = {};
                for (long p = p0; p < std::min(k, p0 + tile); p++)
                    for (long i = 0; i < rows; i++) {
                        const float left = a[(i0 + i) * k + p];
                        for (long j = 0; j < cols; j++) parts[i][j] += left * b[p * m + j0 + j];
                    }
                for (long i = 0; i < rows; i++)
                    for (long j = 0; j < cols; j++) sums[i][j] += parts[i][j];
            }
            for (long i = 0; i < rows; i++)
                for (long j = 0; j < cols; j++) out[(i0 + i) * m + j0 + j] = sums[i][j];
        }
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.product.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty(a.shape[0], b.shape[1])
        library.product(a.data_ptr(), b.data_ptr(), out.data_ptr(), *a.shape, b.shape[1])
        return out
