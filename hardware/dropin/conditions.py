"""Part of every finished file: where the kernel may stand in for the reference, and where it may not."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd import forward_ad

REFERENCE, KERNEL, GRADIENTS = 0, 1, 2
"""Who computes a call: the reference; the kernel; the kernel, if it has gradients that are right."""

Arguments = tuple[Any, ...]
_SCALARS: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": lambda text: text == "True"}
_TYPES = {"int": int, "float": float, "bool": bool}


def ways(searched: dict[str, Any]) -> Callable[[Arguments], int]:
    """What decides who computes a call, made of what was searched: a function of the arguments.

    It is called before each call of the kernel, so it is written for speed: a microsecond for three tensors.
    """
    rows = frozenset(tuple(_kind(name) for name in row) for row in searched["types"])
    literals = [(index, _read(searched["types"][0][index], texts)) for index, texts in searched["literals"].items()]
    place = {"cpu": "is_cpu", "cuda": "is_cuda"}.get(searched["device"], "")
    is_cuda, is_complex = place == "is_cuda", any("complex" in name for row in searched["types"] for name in row)
    tensor, parameter, strided = torch.Tensor, torch.nn.Parameter, torch.strided
    is_grad_enabled, count = torch.is_grad_enabled, len(searched["types"][0])
    dense, sizes = searched["contiguous"], frozenset(searched["sizes"])

    peek = torch._C._functorch.peek_interpreter_stack
    function_modes, dispatch_modes = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
    is_tracing, is_any_autocast_enabled = torch._C._is_tracing, torch._C._is_any_autocast_enabled
    derivatives = forward_ad

    def way(arguments: Arguments) -> int:
        # PyTorch must do nothing but compute: no tracing, transform, mode, autocast or forward-mode derivative.
        if (
            len(arguments) != count
            or peek() is not None
            or function_modes()
            or dispatch_modes()
            or is_tracing()
            or is_any_autocast_enabled()
            or derivatives._current_level >= 0
        ):
            return REFERENCE
        grad_enabled, result, kinds = is_grad_enabled(), KERNEL, []
        for value in arguments:
            kind = type(value)
            if kind is tensor or kind is parameter:
                if value.layout is not strided or value.is_neg() or not value.numel():
                    return REFERENCE
                if dense and not value.is_contiguous():
                    return REFERENCE
                if place and not getattr(value, place):
                    return REFERENCE
                if grad_enabled and value.requires_grad:
                    result = GRADIENTS
                kind = value.dtype
            elif kind not in _SCALAR_TYPES:
                kind = object
            kinds.append(kind)
        if tuple(kinds) not in rows:
            return REFERENCE
        if sizes and tuple(tuple(value.shape) for value in arguments if isinstance(value, tensor)) not in sizes:
            return REFERENCE
        if is_complex and any(type(value) is tensor and value.is_conj() for value in arguments):
            return REFERENCE
        if is_cuda and not is_on_current_device(arguments):
            return REFERENCE
        return nested_way(arguments, literals, place, result) if literals else result

    return way


_SCALAR_TYPES = frozenset(_TYPES.values())


def is_on_current_device(values: Iterable[Any]) -> bool:
    """Whether all tensors lie on the device that kernels are launched on."""
    current = torch.cuda.current_device()
    return all(value.get_device() == current for value in values if isinstance(value, torch.Tensor))


def nested_way(arguments: Arguments, literals: list[tuple[int, frozenset[Any]]], place: str, otherwise: int) -> int:
    """Who computes a call whose numbers or nested arguments must be those that were searched with."""
    for index, allowed in literals:
        value = arguments[index]
        if type(value) in _SCALAR_TYPES:
            if value not in allowed:
                return REFERENCE
            continue
        if described(value) not in allowed:
            return REFERENCE
        for leaf in leaves(value):
            if isinstance(leaf, torch.Tensor):
                if not leaf.numel() or leaf.is_neg() or (place and not getattr(leaf, place)):
                    return REFERENCE
                if leaf.requires_grad and torch.is_grad_enabled():
                    return REFERENCE
    return otherwise


def leaves(value: Any) -> list[Any]:
    """What is no list, tuple or dictionary in ``value``, depth first."""
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def described(value: Any) -> str:
    """A nested argument as text: its structure, types of its tensors, its other values."""
    if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
        return str(value.dtype)
    if type(value) in (list, tuple):
        return f"{type(value).__name__}({', '.join(map(described, value))})"
    if type(value) is dict:
        return "dict(" + ", ".join(f"{key!r}: {described(item)}" for key, item in value.items()) + ")"
    return repr(value)


def _kind(name: str) -> Any:
    if name.startswith("torch."):
        return getattr(torch, name.removeprefix("torch."))
    return _TYPES.get(name, object)


def _read(kind: str, texts: list[str]) -> frozenset[Any]:
    return frozenset(_SCALARS.get(kind, str)(text) for text in texts)


def positions(function: Callable[..., Any], count: int) -> Callable[[Arguments, dict[str, Any]], Arguments]:
    """What turns a call's arguments into the ``count`` positional ones that were searched.

    An empty tuple, which fits nothing, says that it is another call.
    """
    signature = inspect.signature(function)

    def positional(arguments: Arguments, named: dict[str, Any]) -> Arguments:
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError:
            return ()
        bound.apply_defaults()
        for (name, parameter), index in zip(
            signature.parameters.items(), range(len(signature.parameters)), strict=True
        ):
            is_searched = index < count and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
            if not is_searched and bound.arguments[name] is not parameter.default:
                is_empty = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
                if not (is_empty and not bound.arguments[name]):
                    return ()
        return bound.args[:count] if not signature_is_variadic else bound.args

    signature_is_variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in signature.parameters.values())
    return positional
