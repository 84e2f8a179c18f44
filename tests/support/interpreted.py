"""Triton's interpreter with libdevice: its functions exist on a GPU only, so numpy stands in for them.

Import it before any candidate, in a process of its own: it sets TRITON_INTERPRET.
"""

import math
import os

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime.interpreter import TensorHandle

_MATH = {"erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma}
_NUMPY = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sqrt": np.sqrt, "rint": np.rint, "trunc": np.trunc, "pow": np.power, "atan2": np.arctan2,
    "fmod": np.fmod, "hypot": np.hypot,
}  # fmt: skip


def _rsqrt(x):
    return (1 / np.sqrt(x)).astype(x.dtype)


def _wrapped(function):
    def call(*args):
        tensors = [a if isinstance(a, tl.tensor) else tl.full((), a, tl.float32) for a in args]
        with np.errstate(all="ignore"):
            data = function(*(t.handle.data for t in tensors))
        first = max(tensors, key=lambda t: t.handle.data.ndim)
        data = np.asarray(data, dtype=first.handle.data.dtype)
        return tl.tensor(TensorHandle(data, first.dtype.scalar), first.type)

    return call


for _name, _function in _NUMPY.items():
    setattr(libdevice, _name, _wrapped(_function))
libdevice.rsqrt = _wrapped(_rsqrt)
for _name, _scalar in _MATH.items():
    setattr(libdevice, _name, _wrapped(np.vectorize(_scalar, otypes=[np.float64])))
