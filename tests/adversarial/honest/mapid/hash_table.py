"""A hash table, built in each call in scratch memory that is kept for each size."""

import ctypes
import hashlib
import json
import os
from pathlib import Path

import torch

CPP_SOURCE = r"""
#include <cstdint>
extern "C" void positions(const int64_t* x, const int64_t* table, int64_t* slots, int64_t* out, long count, long size,
                          long mask) {
    for (long i = 0; i <= mask; i++) slots[i] = -1;
    for (long i = 0; i < size; i++) {
        uint64_t at = ((uint64_t)table[i] * 0x9E3779B97F4A7C15ull >> 20) & mask;
        while (slots[at] >= 0) at = (at + 1) & mask;
        slots[at] = i;
    }
    #pragma omp parallel for schedule(dynamic, 1024)
    for (long i = 0; i < count; i++) {
        uint64_t at = ((uint64_t)x[i] * 0x9E3779B97F4A7C15ull >> 20) & mask;
        while (slots[at] >= 0 && table[slots[at]] != x[i]) at = (at + 1) & mask;
        out[i] = slots[at] + 1;
    }
}
"""
CPP_FLAGS = []


def load():
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    return ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))


library = load()
library.positions.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_long] * 3
scratch = {}


def kernel(x, table):
    if table.numel() > 1 and not bool((table[1:] > table[:-1]).all()):
        raise ValueError("the table must be sorted and hold each id once")
    x, table, out = x.contiguous(), table.contiguous(), torch.empty(x.shape, dtype=torch.int64)
    size = 1 << (2 * table.numel()).bit_length()
    slots = scratch.setdefault(size, torch.empty(size, dtype=torch.int64))
    pointers = (tensor.data_ptr() for tensor in (x, table, slots, out))
    library.positions(*pointers, x.numel(), table.numel(), size - 1)
    return out
