"""Part of every finished file: the drop-in for a module, which is the reference's class with another ``forward``.

Parameters, buffers, attributes, hooks, ``state_dict``, ``to`` and ``train`` are the reference's own. The candidate's
module is made when it is first needed, shares the parameters and buffers, and leaves its state in the reference's.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from .bridge import Bridge
from .conditions import REFERENCE, positions, ways
from .constructor import is_lazy, positional_and_named
from .embedded import Later
from .functions import Packing, written

_is_compiling = torch.compiler.is_compiling
_KEY = "_dropin"


class Finished:
    """What all instances of a drop-in share."""

    def __init__(self, reference: Any, candidate: Later, searched: dict[str, Any]) -> None:
        self.reference, self.candidate, self.searched = reference, candidate, searched
        self.count = len(searched["types"][0])
        self.way_of = ways(searched)
        self.place = {"cpu": "is_cpu", "cuda": "is_cuda"}.get(searched["device"], "")
        self.positional = positions(functools.partial(reference.Model.forward, None), self.count)
        self.packing = Packing(searched["outputs"])
        self.renamed: dict[str, str] = searched["renamed"]
        """What the candidate's module calls a parameter or buffer, where that is not the reference's name."""
        self.state: list[tuple[str, str, str]] = [
            (path.rpartition(".")[0], path.rpartition(".")[2], kind) for path, kind in searched["state"]
        ]
        self.own = searched["gradients"] == "own" and not searched["writes"] and not self.state

    def constructor_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Those that were searched, by position and by name, without moving anybody's random numbers."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            returned: Any = getattr(self.reference, "get_init_inputs", list)()
        return positional_and_named(self.reference.Model, returned)

    def made(self, make: Callable[..., Any]) -> Any:
        """What ``make`` constructs of the arguments that were searched."""
        positional, named = self.constructor_arguments()
        return make(*positional, **named)

    def is_searched(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Whether a module made of these arguments is the one that was searched."""
        try:
            signature = inspect.signature(self.reference.Model)
            bound, searched = signature.bind(*arguments, **named), self.made(signature.bind)
        except (TypeError, ValueError):
            return False
        bound.apply_defaults()
        searched.apply_defaults()
        return _same(bound.arguments, searched.arguments)


class Unsized:
    """Stands for the bridge of a module with lazy layers, until its first call has given them their sizes."""

    refusal: Any = ()
    has_state = False

    def __init__(self, finished: Finished, owner: Any, is_searched: bool, training: tuple[bool, ...] = ()) -> None:
        self._finished, self._state = finished, (is_searched, training)

    def kept(self, owner: Any) -> tuple[bool, tuple[bool, ...]]:
        """As of a bridge."""
        return self._state

    def ready(self, owner: Any, way: int, arguments: tuple[Any, ...]) -> None:
        """Nothing yet: the reference computes this call; the next one has a bridge if all sizes are there."""
        if not is_lazy(owner):
            object.__setattr__(owner, _KEY, Bridge(self._finished, owner, *self._state))


class DropIn:
    """Goes in front of the reference's class."""

    __slots__ = (_KEY,)
    finished: Finished
    _dropin: Bridge | Unsized

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        make = Unsized if is_lazy(self) else Bridge
        object.__setattr__(self, _KEY, make(self.finished, self, self.finished.is_searched(arguments, named)))

    def __getstate__(self) -> Any:
        inherited: Any = getattr(self.finished.reference.Model, "__getstate__", None)
        is_plain = inherited is None or inherited is getattr(object, "__getstate__", None)
        state = self.__dict__.copy() if is_plain else inherited(self)
        bridge = getattr(self, _KEY, None)
        if isinstance(state, dict) and bridge is not None:
            state = {**state, _KEY: bridge.kept(self)}
        return state

    def __setstate__(self, state: Any) -> None:
        bridge_state = None
        if isinstance(state, dict):
            state = dict(state)
            bridge_state = state.pop(_KEY, None)
        super().__setstate__(state)  # type: ignore[misc]
        if bridge_state is not None:
            make = Unsized if is_lazy(self) else Bridge
            object.__setattr__(self, _KEY, make(self.finished, self, *bridge_state))


def drop_in_module(finished: Finished) -> Callable[[type], type]:
    """Decorates ``class ModelNew(DropIn, Model)``: its ``forward`` is the candidate's wherever that is safe."""
    model = finished.reference.Model
    forward, count, way_of, packing = model.forward, finished.count, finished.way_of, finished.packing
    writes = finished.searched["writes"]

    @functools.wraps(forward)
    def fast(self: Any, *arguments: Any, **named: Any) -> Any:
        if _is_compiling():
            return forward(self, *arguments, **named)
        given = arguments if not named and len(arguments) == count else finished.positional(arguments, named)
        way = way_of(given)
        if way == REFERENCE:
            return forward(self, *arguments, **named)
        try:
            bridge = self._dropin
        except AttributeError:
            return forward(self, *arguments, **named)
        call = bridge.ready(self, way, given)
        if call is None:
            return forward(self, *arguments, **named)
        if not packing.is_known:
            return packing.learn(forward(self, *arguments, **named))
        try:
            result = call(*given)
        except bridge.refusal:
            return forward(self, *arguments, **named)
        if writes:
            written(given, writes)
        if bridge.has_state:
            bridge.take_state()
        return result if type(result) is torch.Tensor else packing.pack(result)

    def decorated(drop_in_class: Any) -> type:
        drop_in_class.finished, drop_in_class.forward = finished, fast
        drop_in_class.__init__.__signature__ = inspect.signature(model.__init__)
        return drop_in_class  # type: ignore[no-any-return]

    return decorated


def _same(first: Any, second: Any) -> bool:
    """Whether two sets of constructor arguments say the same."""
    if isinstance(first, torch.Tensor):
        return isinstance(second, torch.Tensor) and first.dtype == second.dtype and torch.equal(first, second)
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return list(first) == list(second) and all(_same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(_same, first, second))
    return bool(first == second)
