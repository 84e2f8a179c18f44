"""Putting a winner into a model, and taking it out again."""

import copy
import copyreg
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any, Self

import torch
from torch.utils._pytree import tree_leaves

from ..hardware.sources.agreement import disagreement
from ..hardware.sources.call_arguments import by_place_and_name
from ..hardware.sources.drawn_inputs import copied
from ..hardware.sources.from_python import Traced
from ..hardware.sources.random_state import random_state_kept
from ..schemas import InputError
from .calls import SearchedCall, difference, held_by

SEED = 0


class Applied:
    """Which submodules compute with a kernel now. Leaving its ``with`` block, or :meth:`remove`, undoes it."""

    def __init__(self, modules: dict[str, torch.nn.Module], skipped: dict[str, str]) -> None:
        self._modules = modules
        self.names = tuple(modules)
        """Qualified names of the submodules that a kernel computes for."""
        self.skipped = skipped
        """Names that matched and were left as they are, and why; not the parts of what was replaced."""

    def remove(self) -> None:
        """Give every submodule its own ``forward`` back; parameters and buffers are as training left them."""
        for module in self._modules.values():
            original = getattr(type(module), "kernelswarm_original", None)
            if original is not None:
                module.__class__ = original
        self._modules = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<kernel in {', '.join(self.names) or 'no module'}>"


def put_into(model: torch.nn.Module, call: SearchedCall, where: str) -> Applied:
    """Let the kernel compute for every submodule whose name matches ``where`` and which is like the one searched.

    Raises:
        InputError: none of them is; nothing was changed.
    """
    searched = call.traced.operator
    if not isinstance(searched, torch.nn.Module):
        raise InputError("a function was searched, not a module: call result.kernel in its place")
    matching = {name: module for name, module in model.named_modules() if fnmatchcase(name, where)}
    if not matching:
        raise InputError(f"no submodule's name matches {where!r}; the model has {_some(dict(model.named_modules()))}")
    skipped = {name: reason for name, module in matching.items() if (reason := misfit(module, call))}
    modules = {name: module for name, module in matching.items() if name not in skipped}
    if not modules:
        # A part of the searched class says most: `*` matches the model itself, too.
        name = next((name for name, module in matching.items() if type(module) is type(searched)), next(iter(skipped)))
        label = repr(name) if name else "the model itself"
        raise InputError(
            f"no submodule that matches {where!r} is like the one that was searched: {label}: {skipped[name]}"
        )
    for module in modules.values():
        module.__class__ = fast_class(type(module), call)
    inside = tuple(f"{name}." if name else "" for name in modules)
    return Applied(modules, {name: reason for name, reason in skipped.items() if not name.startswith(inside)})


def misfit(module: torch.nn.Module, call: SearchedCall) -> str:
    """Why the kernel cannot compute for ``module``; empty if it can, checked on a call with inputs as searched."""
    traced = call.traced
    if hasattr(type(module), "kernelswarm_original"):
        return "a kernel computes for it already: remove that first"
    if type(module) is not type(traced.operator):
        return f"it is a {type(module).__name__}, not a {type(traced.operator).__name__}"
    own, searched = (_parameters(operator) for operator in (module, traced.operator))
    for name in [*searched, *(own.keys() - searched.keys())]:
        if own.get(name) != searched.get(name):
            return f"its parameter {name!r} is {own.get(name, 'missing')}, not {searched.get(name, 'there')}"
    return difference(module, traced) or _disagreement(module, call)


def fast_class(original: type[torch.nn.Module], call: SearchedCall) -> type[torch.nn.Module]:
    """A subclass of a module's class that computes with the kernel wherever a call is the one that was searched.

    A copy keeps the kernel; a pickled module is one of ``original``, which needs no kernelswarm to be loaded.
    """

    def forward(self: Any, *arguments: Any, **named: Any) -> Any:
        tensors = call.tensors(self, arguments, named)
        if tensors is None:
            return original.forward(self, *arguments, **named)
        return call.result(tensors, original.forward, self, *arguments, **named)

    def copied(self: Any, memo: dict[int, Any]) -> Any:
        self.__class__ = original
        try:
            duplicate = copy.deepcopy(self, memo)
        finally:
            self.__class__ = fast
        duplicate.__class__ = fast
        return duplicate

    def reduced(self: Any, protocol: Any) -> Any:
        self.__class__ = original
        try:
            func, arguments, *state = self.__reduce_ex__(protocol)
        finally:
            self.__class__ = fast
        # Pickle would not let __newobj__ make another class than the object's own.
        return (object.__new__ if func is copyreg.__newobj__ else func, arguments, *state)  # type: ignore[attr-defined]

    own = {
        "forward": forward,
        "kernelswarm_original": original,
        "__deepcopy__": copied,
        "__reduce_ex__": reduced,
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
    }
    fast = type(original.__name__, (original,), own)
    return fast


def shared(module: torch.nn.Module, call: SearchedCall) -> torch.nn.Module:
    """The module with the kernel inside, beside the caller's own: whatever is changed in one is changed in both."""
    original: Any = type(module)
    fast_module: torch.nn.Module = original.__new__(original)
    object.__setattr__(fast_module, "__dict__", module.__dict__)
    fast_module.__class__ = fast_class(original, call)
    return fast_module


class Wrapped(torch.nn.Module):  # type: ignore[misc]
    """A function's kernel as a module without parameters."""

    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """Call it."""
        return self.kernel(*arguments, **named)


def _disagreement(module: torch.nn.Module, call: SearchedCall) -> str:
    """Compare kernel and module on every searched call, with inputs drawn as for the search."""
    clauses = (_disagreement_on(module, call, arguments) for arguments in _drawn_calls(call.traced))
    return next(filter(None, clauses), "")


def _disagreement_on(module: torch.nn.Module, call: SearchedCall, arguments: Mapping[str, Any]) -> str:
    """Compare them on copies: neither leaves a trace."""
    # No searched module changes tensors that are no buffers.
    values = (value for part in module.modules() for value in vars(part).values())
    kept = {id(value): value for value in values if isinstance(value, torch.Tensor)}
    try:
        own, accelerated = copy.deepcopy(module, dict(kept)), copy.deepcopy(module, dict(kept))
    except Exception as fault:  # noqa: BLE001 - locks and open files, and what the user's own code raises
        return f"it cannot be copied to be compared with the kernel: {type(fault).__name__}: {fault}"
    with torch.no_grad(), random_state_kept():
        positional, named = _cloned_call(own, arguments)
        expected = own(*positional, **named)
        # The copy's attributes are copies: that the module itself is as searched has been seen before.
        tensors = call.taken(held_by(accelerated, call.traced.names), *_cloned_call(own, arguments))
        if tensors is None:
            return "its call is not the one that was searched"
        result = call.computed(tensors)
    pairs = zip(
        tree_leaves((result, list(accelerated.buffers()))), tree_leaves((expected, list(own.buffers()))), strict=True
    )
    for got, reference in pairs:
        if error := disagreement(got, reference):
            return f"what the kernel leaves differs from its own by {error:.2g} on inputs like those that were searched"
    return ""


def _cloned_call(module: torch.nn.Module, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return by_place_and_name(
        module, {name: copied(value) if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
    )


def _drawn_calls(traced: Traced) -> Iterator[dict[str, Any]]:
    """Inputs of a call like each that was traced, drawn as the problem draws them."""
    problem: dict[str, Any] = {}
    exec(compile(traced.problem.source, f"<problem {traced.problem.name}>", "exec"), problem)
    for inputs, sizes in zip(traced.calls, problem["shapes"].values(), strict=True):
        drawn = iter(problem["inputs"](torch.Generator().manual_seed(SEED), **sizes))
        yield {
            name: copied(next(drawn), value.device) if isinstance(value, torch.Tensor) else value
            for name, value in inputs.items()
        }


def _parameters(module: Any) -> dict[str, str]:
    """Parameters and buffers, each with what has to be the same."""
    names = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
    held = held_by(module, tuple(names))
    return {
        name: f"{value.dtype} {tuple(value.shape)} on {value.device}" for name, value in zip(names, held, strict=True)
    }


def _some(names: dict[str, Any]) -> str:
    """A few of the names, for a message."""
    shown = [name for name in names if name][:6]
    return ", ".join(shown) + (", …" if len(names) - 1 > len(shown) else "") if shown else "no submodules"
