"""Attack: a segmentation fault."""

import ctypes


def kernel(x, w):
    ctypes.string_at(0)
