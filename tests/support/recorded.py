"""Launches of a Triton candidate, recorded: what Triton would compile for each, without a GPU and without compiling.

Import :mod:`interpreted` first. Triton's own code says what a launch is specialised to, for real tensors on the CPU.
"""

import contextlib

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction, compute_cache_key

_TYPES = {
    "i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8,
    "fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64,
}  # fmt: skip


class _Driver:
    """Stands for the driver of an H200, which need not be here."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0


class Launches:
    """What a candidate's list of launches has compiled, and what its launches ask for."""

    def __init__(self, module):
        driver.set_active(_Driver())
        self.functions = {}
        for name, function in vars(module).items():
            if isinstance(function, InterpretedFunction):
                options = {"do_not_specialize": function.kwargs.get("do_not_specialize")}
                self.functions[function] = name, JITFunction(function.fn, **options)
        listed = {name: function for function, (name, _) in self.functions.items()}
        self.compiled = {
            self.key(
                listed[launch["kernel"]],
                {n: stand_in(value) for n, value in launch["arguments"].items()} | launch["options"],
            )
            for launch in module.TRITON_LAUNCHES
        }
        self.launches = []

    def key(self, function, keywords, arguments=()):
        name, jit = self.functions[function]
        _, keys, _, _, binder = jit.device_caches[0]
        _, specialization, options = binder(*arguments, **keywords)
        return name, compute_cache_key(keys, specialization, options)

    @contextlib.contextmanager
    def recorded(self, *, run):
        """Launches are kept in ``launches``; ``run`` says whether the interpreter runs them, else results are zeros."""
        plain = InterpretedFunction.run
        self.launches = []

        def instead(function, *arguments, grid, warmup, **keywords):
            self.launches.append(self.key(function, keywords, arguments))
            if run:
                return plain(function, *arguments, grid=grid, warmup=warmup, **keywords)
            for parameter, value in zip(function.arg_names, arguments, strict=False):
                if parameter.endswith("_out"):
                    value.zero_()
            return None

        InterpretedFunction.run = instead
        try:
            yield self
        finally:
            InterpretedFunction.run = plain

    def unlisted(self):
        """Kernels that would be compiled anew."""
        return sorted({name for name, key in self.launches if (name, key) not in self.compiled})


def stand_in(value):
    """What a launch would pass for a value as the list of launches writes it."""
    if not isinstance(value, str) or not value.startswith("*"):
        return value
    name, _, alignment = value[1:].partition(" ")
    return torch.empty(32, dtype=_TYPES[name])[1 if alignment else 0 :]


def strided(tensor):
    """Transposed storage, or every second element of it."""
    if tensor.dim() >= 2:
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    return torch.stack([tensor, tensor], -1)[..., 0] if tensor.dim() else tensor


def padded(tensor):
    """Rows that do not follow each other, the first one between two multiples of 16 bytes."""
    wide = torch.zeros((*tensor.shape[:-1], tensor.shape[-1] + 3), dtype=tensor.dtype) if tensor.dim() else tensor
    return wide[..., 1 : 1 + tensor.shape[-1]].copy_(tensor) if tensor.dim() else tensor


def misaligned(tensor):
    """Contiguous, but from between two multiples of 16 bytes on."""
    return torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape).copy_(tensor)


def expanded(tensor):
    """One element for the whole first dimension, with other numbers therefore."""
    return tensor[:1].expand(tensor.shape) if tensor.dim() else tensor


PLACES = {"strided": strided, "padded": padded, "misaligned": misaligned, "expanded": expanded}
"""Tensors like a given one in other places."""


def placed(inputs, *places):
    """The inputs, each in one of the places in turn."""
    turns = [PLACES[place] for place in places]
    return [
        turns[at % len(turns)](value) if isinstance(value, torch.Tensor) else value for at, value in enumerate(inputs)
    ]
