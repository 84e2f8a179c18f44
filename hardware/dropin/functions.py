"""Part of every finished file: the drop-in for a function, and how results are packed."""

import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from .conditions import GRADIENTS, REFERENCE, positions, ways
from .embedded import Later
from .own_backward import differentiable

_increment_version = torch.autograd.graph.increment_version
_SLOT = object()


class Packing:
    """Gives results the reference's structure: a named tuple stays one, a list stays a list.

    A single tensor needs none. Otherwise the first call is the reference's, and shows it.
    """

    def __init__(self, outputs: int) -> None:
        self.is_known = outputs == 1
        self._wanted: Any = None
        self._kind: Any = None
        """Class of the result, where that is a dataclass or kind of dictionary that pytrees do not look into."""
        self._constants: list[Any] = []
        """What the result holds, a slot for every tensor."""
        self._packs: dict[Any, bool] = {}

    def learn(self, result: Any) -> Any:
        """Note the structure of the reference's ``result``, and return that."""
        if not self.is_known:
            is_object = isinstance(result, dict) or dataclasses.is_dataclass(result)
            if is_object and _pytree.tree_structure(result).is_leaf():
                self._kind = type(result)
            held = result if not self._kind else dict(result) if isinstance(result, dict) else vars(result)
            leaves, self._wanted = _pytree.tree_flatten(held)
            self._constants = [_SLOT if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            self.is_known = True
        return result

    def pack(self, result: Any) -> Any:
        """The kernel's ``result`` as the reference would have packed it."""
        if self._wanted is None:
            return result
        if self._kind is not None:
            packed = self._kind.__new__(self._kind)
            if isinstance(packed, dict):
                for key, item in self._filled(result).items():
                    packed[key] = item
            else:
                vars(packed).update(self._filled(result))
            return packed
        kind = type(result)
        if kind not in self._packs:
            self._packs[kind] = _pytree.tree_structure(result) != self._wanted
        return self._filled(result) if self._packs[kind] else result

    def _filled(self, result: Any) -> Any:
        leaves = _pytree.tree_leaves(result)
        if len(leaves) != len(self._constants):  # A kernel may return the tensors alone.
            tensors = iter(leaves)
            leaves = [next(tensors) if leaf is _SLOT else leaf for leaf in self._constants]
        return _pytree.tree_unflatten(leaves, self._wanted)


def written(arguments: tuple[Any, ...], indices: list[int]) -> None:
    """Tell autograd that the kernel wrote to these arguments, so that it never uses what it saved of them before."""
    for index in indices:
        tell_autograd(arguments[index])


def tell_autograd(value: Any) -> None:
    """Count one more write to a tensor, where it counts writes."""
    if isinstance(value, torch.Tensor) and not value.is_inference():
        _increment_version(value)


def drop_in_function(reference: Callable[..., Any], candidate: Later, searched: dict[str, Any]) -> Callable[..., Any]:
    """``reference``, computed by the candidate's ``kernel`` wherever that is safe."""
    count = len(searched["types"][0])
    positional, way_of, packing = positions(reference, count), ways(searched), Packing(searched["outputs"])
    writes, is_compiling = searched["writes"], torch.compiler.is_compiling
    calls = _Calls(reference, candidate, searched["gradients"] == "own" and not writes)

    @functools.wraps(reference)
    def kernel(*arguments: Any, **named: Any) -> Any:
        if is_compiling():
            return reference(*arguments, **named)
        given = arguments if not named and len(arguments) == count else positional(arguments, named)
        way = way_of(given)
        if way == REFERENCE:
            return reference(*arguments, **named)
        if not packing.is_known:
            return packing.learn(reference(*arguments, **named))
        call = calls.plain if way != GRADIENTS else calls.differentiable
        if call is None:
            return reference(*arguments, **named)
        try:
            result = call(*given)
        except calls.refusal:
            return reference(*arguments, **named)
        if writes:
            written(given, writes)
        return result if type(result) is torch.Tensor else packing.pack(result)

    kernel.__name__ = kernel.__qualname__ = "kernel"
    kernel.packing = packing  # type: ignore[attr-defined]
    return kernel


class _Calls:
    """The candidate's function, with and without gradients; what it is made of is executed at the first call."""

    def __init__(self, reference: Callable[..., Any], candidate: Later, own: bool) -> None:
        self._reference, self._candidate, self._own = reference, candidate, own
        self._guard = threading.RLock()
        self.refusal: Any = ()
        self.plain: Callable[..., Any] = functools.partial(self._first, False)
        self.differentiable: Callable[..., Any] | None = functools.partial(self._first, True) if own else None

    def _first(self, gradients: bool, *arguments: Any) -> Any:
        with self._guard, torch.inference_mode(False):
            module = self._candidate.module()
            plain, backward = module.kernel, getattr(module, "backward", None)
            if self._own:
                self.differentiable = differentiable(plain, backward, self._reference) if backward else plain
            self.refusal = self._candidate.refusal()
            self.plain = plain
        call = self.differentiable if gradients else self.plain
        assert call is not None
        return call(*arguments)
