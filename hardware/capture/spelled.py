"""Spells things out that a trace gets wrong: circular padding, checks of classes, functions that know numbers only."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import Any
from unittest import mock

from ...schemas import ProblemError
from .batch_norms import cumulative
from .losses import ctc_loss, gaussian_nll_loss, shaped
from .positions import views_at_positions
from .recurrent import recurrent_layers_whole
from .resampling import upsample_linear

_FUNCTIONS = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
"""Functions of :mod:`math` that torch has for sizes that are symbols."""


class _Number(type):
    """Of a type of numbers that takes symbols for numbers, and makes symbols of symbols."""

    def __call__(cls, *values: Any, **keywords: Any) -> Any:
        import torch

        plain, symbolic = (float, torch.sym_float) if issubclass(cls, float) else (int, torch.sym_int)
        is_symbol = len(values) == 1 and isinstance(values[0], torch.SymInt | torch.SymFloat)
        return (symbolic if is_symbol else plain)(*values, **keywords)

    def __instancecheck__(cls, value: Any) -> bool:
        import torch

        return isinstance(value, (float, torch.SymFloat) if issubclass(cls, float) else (int, torch.SymInt))


class _Float(float, metaclass=_Number):
    """``float`` that keeps sizes symbolic."""


class _Int(int, metaclass=_Number):
    """``int`` that keeps sizes symbolic."""


@contextmanager
def spelled(target: Any, types: bool = True) -> Iterator[None]:
    """While it is traced, ``target`` keeps sizes symbolic in functions of numbers; composite operators are spelled out.

    PyTorch pads circularly by writing into an empty tensor, which a trace follows without seeing who writes where; and
    see :mod:`capture_resampling`. With ``types``, ``float`` and ``int`` are such functions, too, by whose names
    ``target`` then finds others than the built-in types.
    """
    import torch

    aten = torch.ops.aten
    linear = (aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec)
    with ExitStack() as stack:
        stack.enter_context(_composite(aten._pad_circular.default, pad_circular))
        for operator in linear:
            stack.enter_context(_composite(operator, upsample_linear))
        for operator in (aten.ctc_loss.Tensor, aten.ctc_loss.IntList):
            stack.enter_context(_composite(operator, ctc_loss))
        stack.enter_context(_composite(aten.one_hot.default, one_hot))
        stack.enter_context(shaped())
        stack.enter_context(views_at_positions())
        stack.enter_context(recurrent_layers_whole())
        stack.enter_context(mock.patch.object(torch.nn.functional, "gaussian_nll_loss", gaussian_nll_loss))
        norm = torch.nn.modules.batchnorm._BatchNorm
        stack.enter_context(mock.patch.object(norm, "forward", cumulative(norm.forward)))
        transformer = torch.nn.modules.transformer
        stack.enter_context(mock.patch.object(transformer, "_detect_is_causal_mask", _is_causal))
        stack.enter_context(_symbolic_functions(target))
        for space in _namespaces(target) if types else ():
            stack.enter_context(mock.patch.dict(space, {"float": _Float, "int": _Int} | _taken(space)))
        yield


def _is_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """PyTorch compares the mask's values with a causal one's, which would spare it the mask: the result is the same."""
    return is_causal is True


@contextmanager
def _composite(operator: Any, function: Callable[..., Any]) -> Iterator[None]:
    """``operator`` is what ``function`` does with operators of its own."""
    import torch

    with mock.patch.dict(operator.py_kernels, {torch._C.DispatchKey.CompositeImplicitAutograd: function}):
        operator._dispatch_cache.clear()
        try:
            yield
        finally:
            operator._dispatch_cache.clear()


def pad_circular(x: Any, pad: Sequence[Any]) -> Any:
    """``F.pad(x, pad, mode="circular")``: what is padded in front is the end of ``x``, and the other way round.

    Args:
        x: tensor.
        pad: elements in front of and behind the last dimension, then the one before it; negative ones are cut off.
    """
    import torch

    for k in range(len(pad) // 2):
        dim, front, back = x.ndim - 1 - k, pad[2 * k], pad[2 * k + 1]
        first, last = max(-front, 0), max(-back, 0)
        cropped = x.narrow(dim, first, x.shape[dim] - first - last) if first or last else x
        size = cropped.shape[dim]
        before = [cropped.narrow(dim, size - front, front)] if front > 0 else []
        after = [cropped.narrow(dim, 0, back)] if back > 0 else []
        x = torch.cat([*before, cropped, *after], dim) if before or after else cropped
    return x


def one_hot(classes: Any, num_classes: Any = -1) -> Any:
    """``F.one_hot`` that reads each class as an index, which kernels check.

    PyTorch's own compares, behind assertions that a trace drops: a class out of range would be a row of zeros.
    """
    import torch

    if num_classes == -1:
        raise ProblemError(
            "F.one_hot without num_classes has a size that depends on its input's values, and no graph can hold that; "
            "give it num_classes"
        )
    torch._check_type(classes.dtype is torch.int64, lambda: "one_hot is only applicable to index tensors of int64")
    torch._check(num_classes > 0, lambda: f"num_classes should be positive, and is {num_classes}")
    numbers = torch.arange(num_classes, device=classes.device)
    checked = numbers.expand(*classes.shape[:-1], num_classes).gather(-1, classes)
    return (checked.unsqueeze(-1) == numbers).to(torch.int64)


@contextmanager
def _symbolic_functions(target: Any) -> Iterator[None]:
    """``math.sqrt(x.shape[1])`` would ask for the number, and the trace would hold for this size alone."""
    import torch

    with ExitStack() as stack:
        # NumPy asks an object that is no number for a method of the function's name.
        for name, kind in product(_FUNCTIONS, (torch.SymInt, torch.SymFloat)):
            stack.enter_context(mock.patch.object(kind, name, getattr(torch, f"_sym_{name}"), create=True))
        for place, name, symbolic in _replacements():
            plain = getattr(place, name)
            replacement = _where_symbolic(plain, symbolic)
            stack.enter_context(mock.patch.object(place, name, replacement))
            for space in _namespaces(target):
                held = {key: replacement for key, value in space.items() if value is plain}
                stack.enter_context(mock.patch.dict(space, held))
        yield


def _replacements() -> list[tuple[Any, str, Callable[..., Any]]]:
    """Functions that know numbers only: where they are, and what stands for them if a size is a symbol."""
    import torch

    replacements = [(math, name, getattr(torch, f"_sym_{name}")) for name in _FUNCTIONS]
    return [*replacements, (math, "pow", _power), (torch, "tensor", _scalar), (torch, "linspace", _linspace)]


def _power(base: Any, exponent: Any) -> Any:
    import torch

    return torch.sym_float(base) ** exponent


def _scalar(value: Any, dtype: Any = None, **keywords: Any) -> Any:
    import torch

    kind = torch.int64 if isinstance(value, torch.SymInt) else torch.get_default_dtype()
    return torch.scalar_tensor(value, dtype=dtype or kind, **keywords)


def _linspace(start: Any, end: Any, steps: Any, dtype: Any = None, device: Any = None, **keywords: Any) -> Any:
    """From the nearer end, as PyTorch does."""
    import torch

    place = torch.arange(steps, device=device)
    kind = dtype or torch.get_default_dtype()
    step = (end - start) / torch.sym_max(steps - 1, 1)
    back = end - (steps - 1 - place).to(kind) * step
    return torch.where(place * 2 < steps, start + place.to(kind) * step, back)


def _where_symbolic(plain: Callable[..., Any], symbolic: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    kinds = (torch.SymInt, torch.SymFloat)

    @functools.wraps(plain)
    def function(*values: Any, **keywords: Any) -> Any:
        is_symbolic = any(isinstance(value, kinds) for value in (*values, *keywords.values()))
        return (symbolic if is_symbolic else plain)(*values, **keywords)

    return function


def _taken(space: dict[str, Any]) -> dict[str, Any]:
    return {name: space[name] for name in ("float", "int") if name in space}


def _namespaces(target: Any) -> list[dict[str, Any]]:
    """Where the reference's own code looks names up: ``from math import sqrt`` has put a function there."""
    import torch

    functions = [target]
    if isinstance(target, torch.nn.Module):
        functions = [type(module).forward for module in target.modules()]
    spaces = [getattr(function, "__globals__", {}) for function in functions]
    own = [space for space in spaces if str(space.get("__name__", "")).split(".")[0] != "torch"]
    return list({id(space): space for space in own}.values())
