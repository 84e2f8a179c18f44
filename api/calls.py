"""One call as it was searched: whether another call is the same, and the kernel for it."""

import operator as operators
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_unflatten

from ..hardware.sources.from_python import Traced, flattened, is_held, signature_of

_SIMPLE = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_TENSORS = (torch.Tensor, torch.nn.Parameter)


class SearchedCall:
    """Decides call by call whether the kernel may stand in for the operator that was traced.

    Only where everything is as it was searched: shapes, types, devices and layouts of the inputs, numbers among them,
    the module's modes, attributes, parts and what they do; and where nobody wants gradients, which the operator itself
    gives, or to see the calls of its parts.
    """

    def __init__(self, traced: Traced, kernel: Callable[..., Any]) -> None:
        self.traced = traced
        self._kernel = kernel
        assert traced.operator is not None
        self._signature = signature_of(traced.operator)
        self._inputs = [[_described(value) for value in inputs.values()] for inputs in traced.calls]
        self._places = [at for at, value in enumerate(traced.inputs.values()) if isinstance(value, torch.Tensor)]
        self._parameters = [_described(value) for value in traced.parameters[: len(traced.names)]]
        self._forwards = {kind: getattr(kind, "forward", None) for kind, _ in traced.settings}

    def ready(
        self, module: torch.nn.Module | None, arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Callable[[], Any] | None:
        """The kernel's call for these arguments; None where the operator has to be called.

        Args:
            module: whose parameters are taken; None for a function.
            arguments: by position.
            named: by name.
        """
        if torch.compiler.is_compiling():
            return None
        values = self._values(arguments, named)
        if values is None or [_described(value) for value in values] not in self._inputs:
            return None
        held = [] if module is None else held_by(module, self.traced.names)
        if [_described(value) for value in held] != self._parameters:
            return None
        tensors = [values[at] for at in self._places] + held
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            return None
        if module is not None and (self._is_watched() or difference(module, self.traced)):
            return None
        return lambda: self._packed(self._kernel(*tensors, *self.traced.constants))

    def _is_watched(self) -> bool:
        """Whether somebody asked to see the calls of every module, or has replaced what one of its classes does."""
        replaced = any(getattr(kind, "forward", None) is not forward for kind, forward in self._forwards.items())
        return replaced or torch.nn.modules.module._has_any_global_hook()

    def _packed(self, result: Any) -> Any:
        """The kernel's result in the operator's structure: a named tuple stays one."""
        if self.traced.structure is None or isinstance(result, torch.Tensor):
            return result
        return tree_unflatten(tree_leaves(result), self.traced.structure)

    def _values(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any] | None:
        """The arguments in the order in which they were traced; None if others are given."""
        if not named:
            return list(arguments)
        if self._signature is None:
            return None
        try:
            given = flattened(self._signature.bind(*arguments, **named))
        except TypeError:
            return None
        return list(given.values()) if list(given) == list(self.traced.inputs) else None


def held_by(module: torch.nn.Module, names: tuple[str, ...]) -> list[Any]:
    """Parameters and buffers by name; None for what is not there."""
    held = []
    for name in names:
        try:
            held.append(operators.attrgetter(name)(module))
        except AttributeError:
            held.append(None)
    return held


def difference(module: torch.nn.Module, traced: Traced) -> str:
    """What makes ``module`` another operator than the one that was traced, parameters aside; empty for nothing."""
    parts: list[Any] = list(module.modules())
    if len(parts) != len(traced.settings):
        return f"it has {len(parts)} parts, not {len(traced.settings)}"
    for part, (kind, attributes) in zip(parts, traced.settings, strict=True):
        now = vars(part)
        if part is not module and type(part) is not kind:
            return f"a part of it is a {type(part).__name__}, not a {kind.__name__}"
        if part is not module and any(now[hooks] for hooks in _HOOKS):
            return "a part of it has hooks"
        if part is not module and now.get("forward") is not attributes.get("forward"):
            return "a part of it has another forward"
        for key, value in attributes.items():
            if (key, value) != ("training", None) and not is_held(value) and not is_same(now.get(key), value):
                return f"its attribute {key!r} is another one"
    return ""


def is_same(left: Any, right: Any) -> bool:
    """Whether two attributes say the same, as far as that can be told."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(is_same(left[key], right[key]) for key in left)
    return isinstance(left, _SIMPLE) and bool(left == right)


def loaded(source: str, name: str) -> ModuleType:
    """A finished file, executed as a module of its own.

    Args:
        source: the file's text.
        name: of the session, for tracebacks.
    """
    module = ModuleType(f"kernelswarm_best_{name.replace('-', '_')}")
    exec(compile(source, f"<kernelswarm {name}>", "exec"), module.__dict__)
    return module


def _described(value: Any) -> Any:
    """What two arguments must have in common for the kernel to be the one that was searched.

    How the operator's results lie in memory follows from how its inputs do; the kernel's do not.
    """
    if type(value) in _TENSORS:
        dense = value.layout is torch.strided
        layout = value.layout if not dense else "contiguous" if value.is_contiguous() else value.stride()
        return value.shape, value.dtype, value.device, layout
    return type(value), value if isinstance(value, _SIMPLE) else id(value)
