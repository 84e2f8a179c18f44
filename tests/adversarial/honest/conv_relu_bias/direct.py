"""A direct convolution in C++ with ReLU and bias in the same loop."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
extern "C" void conv(const float* x, const float* weight, const float* inner, const float* outer, float* out,
                     long images, long channels, long filters, long height, long width, long size) {
    const long rows = height - size + 1, cols = width - size + 1;
    #pragma omp parallel for collapse(2) schedule(static, 1)
    for (long n = 0; n < images; n++)
        for (long f = 0; f < filters; f++)
            for (long r = 0; r < rows; r++) {
                float* to = out + ((n * filters + f) * rows + r) * cols;
                for (long c = 0; c < cols; c++) to[c] = inner[f];
                for (long d = 0; d < channels; d++)
                    for (long i = 0; i < size; i++)
                        for (long j = 0; j < size; j++) {
                            const float tap = weight[((f * channels + d) * size + i) * size + j];
                            const float* from = x + ((n * channels + d) * height + r + i) * width + j;
                            for (long c = 0; c < cols; c++) to[c] += tap * from[c];
                        }
                for (long c = 0; c < cols; c++) to[c] = (to[c] < 0 ? 0 : to[c]) + outer[f];
            }
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.conv.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_long] * 6


class ModelNew(torch.nn.Module):
    def __init__(self, channels, filters, size):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, filters, size)
        self.bias = torch.nn.Parameter(torch.randn(filters, 1, 1))

    @torch.no_grad()
    def forward(self, x):
        images, channels, height, width = x.shape
        filters, _, size, _ = self.conv.weight.shape
        out = torch.empty(images, filters, height - size + 1, width - size + 1)
        given = [tensor.contiguous() for tensor in (x, self.conv.weight, self.conv.bias, self.bias)]
        pointers = (tensor.data_ptr() for tensor in (*given, out))
        library.conv(*pointers, images, channels, filters, height, width, size)
        return out
