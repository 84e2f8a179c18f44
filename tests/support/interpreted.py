"""Triton's interpreter with libdevice: its functions exist on a GPU only, so numpy stands in for them.

Import it before any candidate, in a process of its own: it sets TRITON_INTERPRET. It also leaves out what the
interpreter does anew in each of thousands of calls, and reduces as a GPU does: in halves, not element by element.
"""

import functools
import math
import os
from dataclasses import replace

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpretedFunction, ReduceOps, TensorHandle

_MATH = {"erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma}
_NUMPY = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sqrt": np.sqrt, "rint": np.rint, "trunc": np.trunc, "pow": np.power, "atan2": np.arctan2,
    "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign,
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


def _with_boolean_mask(name, place):
    """A number of a whole program that is compared gives an integer here, and a mask of it is none."""
    function = getattr(interpreter.InterpreterBuilder, name)

    def call(self, *args):
        mask = args[place]
        mask.data = mask.data.astype(bool)
        return function(self, *args)

    setattr(interpreter.InterpreterBuilder, name, call)


_with_boolean_mask("create_masked_load", 1)
_with_boolean_mask("create_masked_store", 2)

_truncate = interpreter.InterpreterBuilder.create_fp_trunc


def _round(self, src, dst_type):
    """To the nearest number, as a GPU does; the interpreter cuts bits of bfloat16 off."""
    if src.dtype.scalar != tl.float32 or dst_type.scalar != tl.bfloat16:
        return _truncate(self, src, dst_type)
    data = np.ascontiguousarray(src.data)
    bits = data.view(np.uint32)
    nearest = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    kept = np.where(np.isnan(data), bits | np.uint32(0x400000), nearest) >> np.uint32(16)
    return TensorHandle(kept.astype(np.uint16), tl.bfloat16)


interpreter.InterpreterBuilder.create_fp_trunc = _round
_multiply = interpreter.InterpreterBuilder.create_dot


def _multiply_wider(self, a, b, *others):
    """bfloat16 lies in integers here, which would be multiplied as such."""
    a, b = (self.cast_impl(x, tl.float32) if x.dtype.scalar == tl.bfloat16 else x for x in (a, b))
    return _multiply(self, a, b, *others)


interpreter.InterpreterBuilder.create_dot = _multiply_wider

_patch_language = interpreter._patch_lang
_numpy_type = functools.cache(interpreter._get_np_dtype)
_reduce_by_element = ReduceOps.generic_reduce
_patched = set()
"""Names of modules for which the launch under way has the language patched."""


def _patch_for_launch(function):
    _patched.clear()
    return _patch_language(function)


def _call_device_function(function, *arguments, **keywords):
    """A kernel's call of another function, whose module sees the language patched from the first call on."""
    module = function.fn.__globals__["__name__"]
    if module not in _patched:
        _patch_language(function.fn)
        _patched.add(module)
    return function.rewrite()(*arguments, **keywords)


def _type_in_numpy(dtype):
    scalar = dtype.scalar
    return np.dtype(np.uint64) if isinstance(scalar, tl.pointer_type) else _numpy_type(scalar)


def _reduce_in_halves(operation, tensors):
    """By the candidate's own function. Orders are Triton's to choose; with its tensors it combines whole halves."""
    tensors, axis = operation.unravel(tensors, operation.axis)
    parts = [np.moveaxis(tensor.handle.data, axis, 0) for tensor in tensors]
    length = len(parts[0])
    if length & (length - 1):
        return _reduce_by_element(operation, tensors)
    while length > 1:
        length //= 2
        sides = (part[half] for half in (slice(length), slice(length, None)) for part in parts)
        types = [tensor.dtype for tensor in tensors] * 2
        combined = operation.combine_fn.fn(*map(operation.to_tensor, sides, types))
        combined = combined if isinstance(combined, tuple) else (combined,)
        parts = [tensor.handle.data for tensor in combined]
    is_full = operation.axis is None
    if operation.keep_dims:
        results = [np.moveaxis(part, 0, axis) for part in parts]
    else:
        results = [part[0].item() if is_full else part[0] for part in parts]
    return [operation.to_tensor(part, tensor.dtype) for part, tensor in zip(results, tensors, strict=True)]


@functools.cache
def _extent(shape):
    """The sizes and the number of elements of a tensor, as a kernel sees them."""
    return tl.tuple([tl.constexpr(size) for size in shape]), tl.constexpr(math.prod(shape))


def _make_tensor(tensor, handle, type):
    tensor.handle, tensor.type, tensor.dtype = handle, type, type.scalar
    tensor.shape, tensor.numel = _extent(type.shape if type.is_block() else ())


def _with_element(block, element):
    other = object.__new__(tl.block_type)
    other.element_ty, other.shape, other.numel = element, block.shape, block.numel
    other.name = f"<{block.shape}, {element}>"
    return other


interpreter._patch_lang = _patch_for_launch
interpreter._get_np_dtype = _type_in_numpy
InterpretedFunction.__call__ = _call_device_function
ReduceOps.generic_reduce = _reduce_in_halves
tl.tensor.__init__ = _make_tensor
tl.block_type.with_element_ty = _with_element
# Sums of integers are computed again in 64 bits for an assertion that the interpreter leaves out.
_builder = interpreter.interpreter_builder
assert not _builder.options.debug
_builder.options = replace(_builder.options, sanitize_overflow=False)
