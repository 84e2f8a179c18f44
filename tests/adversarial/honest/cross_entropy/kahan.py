"""Kahan's compensated sum of the exponentials, OpenMP with a guided schedule."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cmath>
extern "C" void losses(const float* x, const long* labels, float* out, long rows, long cols) {
    #pragma omp parallel for schedule(guided)
    for (long r = 0; r < rows; r++) {
        const float* in = x + r * cols;
        if (labels[r] == -100) { out[r] = 0; continue; }
        float most = -INFINITY;
        for (long c = 0; c < cols; c++) most = in[c] > most || in[c] != in[c] ? in[c] : most;
        float sum = 0, carry = 0;
        for (long c = 0; c < cols; c++) {
            const float term = std::exp(in[c] - most) - carry, next = sum + term;
            carry = (next - sum) - term;
            sum = next;
        }
        out[r] = std::log(sum) + (most - in[labels[r]]);
    }
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.losses.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2


def kernel(logits, labels):
    logits, labels = logits.contiguous(), labels.contiguous()
    losses = torch.empty(len(labels))
    library.losses(logits.data_ptr(), labels.data_ptr(), losses.data_ptr(), *logits.shape)
    return losses.double().sum().div((labels != -100).sum()).float()
