"""Settings of a module as they were: what lists, dictionaries, objects, tensors and arrays hold may change in place."""

import logging
import sys
import types
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter, is_
from typing import Any

import torch

SIMPLE = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size)
"""Types whose values are the same where they are equal."""
_IMMUTABLE = (*SIMPLE, complex, bytes, range, slice, types.UnionType, types.GenericAlias)
"""With those that are no arguments of a kernel."""
_CONTAINERS = (deque, dict, list, tuple, set, frozenset)
_CALLABLES = (types.FunctionType, types.MethodType, partial)
_BY_IDENTITY = (type, types.ModuleType, torch.nn.Module, torch.fx.Graph, logging.Logger)
"""A logger holds all others, and somebody may make a new one; what a graph says, the code of its module does."""
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_MOST = 2000
"""Values that are looked into below one setting; further ones are told apart by identity."""

LARGEST_ARRAYS = 2**20
"""Bytes of NumPy arrays in one setting. They count no writes, as tensors do, so that each call reads all of them: at
1.5 ms for a MiB."""

Owned = Mapping[int, Any]
"""Parts, parameters and buffers of a module, by identity: what names them. Each module has its own in their place."""


@dataclass(eq=False)
class _Content:
    """What a value holds, all the way down; of a value that holds itself, too."""

    kind: type[Any] | str
    values: tuple[Any, ...] = ()
    """Behind the keys of a dictionary, in order, or the names of an object's attributes."""
    plain: Any = None
    """What is compared as it is: a set's elements, an array's bytes."""


@dataclass(frozen=True)
class _Owned:
    name: Any


class KeptTensor:
    """A tensor that is no parameter and no buffer: a kernel takes it, or has its numbers as constants."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.version = tensor, version(tensor)

    def __reduce__(self) -> tuple[Any, ...]:
        return KeptTensor, (self.tensor,)  # versions begin anew where it is loaded


def owned_by(module: torch.nn.Module) -> Owned:
    """Its parts, parameters and buffers: a setting that is one of these is, in a like module, the one of its name."""
    tensors = (*module.named_parameters(), *module.named_buffers())
    parts = {id(part): ("part", name) for name, part in module.named_modules()}
    return parts | {id(tensor): ("tensor", name) for name, tensor in tensors}


def kept(value: Any, owned: Owned = types.MappingProxyType({})) -> Any:
    """``value`` as it is now: where it holds others, with what it holds, all the way down."""
    return _Keeper(owned).kept(value)


class _Keeper:
    def __init__(self, owned: Owned) -> None:
        self._owned = owned
        self._nodes: dict[int, tuple[Any, _Content]] = {}
        self._waiting: list[tuple[_Content, Sequence[Any]]] = []

    def kept(self, value: Any) -> Any:
        content = self._noted(value)
        while self._waiting:  # no recursion: a list of linked objects is longer than Python's stack
            node, values = self._waiting.pop()
            node.values = tuple(map(self._noted, values))
        return content

    def _noted(self, value: Any) -> Any:
        if id(value) in self._owned:
            return _Owned(self._owned[id(value)])
        if type(value) in _TENSORS:
            return KeptTensor(value)
        if id(value) in self._nodes:
            return self._nodes[id(value)][1]
        held = None if len(self._nodes) >= _MOST else _held_by(value)
        if held is None:
            return value
        values, plain = held
        node = _Content(_kind(value), plain=plain)
        self._nodes[id(value)] = (value, node)  # the value is kept alive, so that its identity stays its own
        self._waiting.append((node, values))
        return node


def bytes_of_arrays(setting: Any) -> int:
    """How much of NumPy arrays a setting holds, all the way down: what a comparison with it reads."""
    waiting, seen, total = [setting], set[int](), 0
    while waiting and len(seen) < _MOST:
        value = waiting.pop()
        if isinstance(value, SIMPLE) or id(value) in seen:
            continue
        seen.add(id(value))
        if _is_array(value):
            total += value.nbytes
        elif (held := _held_by(value)) is not None:
            waiting += held[0]
    return total


def is_as(now: Any, before: Any, owned: Owned = types.MappingProxyType({})) -> bool:
    """Whether a setting says what it said when it was :func:`kept`, as far as that can be told.

    Args:
        now: the setting.
        before: what ``kept`` returned, of this module or of another.
        owned: of the module that ``now`` is a setting of.
    """
    try:
        return _is_as(now, before, owned)
    except Exception:  # noqa: BLE001 - whatever the users' own `__eq__` and `__repr__` raise
        return False


def _is_as(now: Any, before: Any, owned: Owned) -> bool:
    waiting, pairs = [(now, before)], set[tuple[int, int]]()
    while waiting:
        now, before = waiting.pop()
        if not isinstance(before, _Content):
            if not _is_leaf_as(now, before, owned):
                return False
            continue
        if _kind(now) != before.kind or id(now) in owned:
            return False
        if (id(now), id(before)) in pairs:
            continue  # compared already, or what holds it is being compared
        pairs.add((id(now), id(before)))
        held = _held_by(now)
        if held is None:
            return False
        values, plain = held
        if plain != before.plain or len(values) != len(before.values):
            return False
        waiting += zip(values, before.values, strict=True)
    return True


def _is_leaf_as(now: Any, before: Any, owned: Owned) -> bool:
    if isinstance(before, _Owned):
        return id(now) in owned and bool(owned[id(now)] == before.name)
    if isinstance(before, KeptTensor):
        return _is_tensor_as(now, before)
    alike = type(now) is type(before) and isinstance(now, _IMMUTABLE)
    # 0.0 and -0.0 are equal, and have other reciprocals.
    return now is before or (alike and bool(now == before) and repr(now) == repr(before))


def _is_tensor_as(now: Any, before: KeptTensor) -> bool:
    """A tensor that was written since is another one for every module: the kernel takes that of the searched one."""
    tensor = before.tensor
    if type(now) is not type(tensor) or version(tensor) != before.version:
        return False
    if now is tensor:
        return True
    fields = ("shape", "dtype", "device", "layout", "requires_grad")
    if any(getattr(now, name) != getattr(tensor, name) for name in fields) or tensor.layout is not torch.strided:
        return False
    return now.stride() == tensor.stride() and not now.is_meta and torch.equal(now, tensor)


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was written; inference tensors do not count that."""
    return -1 if tensor.is_inference() else int(tensor._version)


def _held_by(value: Any) -> tuple[Sequence[Any], Any] | None:
    """What ``value`` holds, and what is compared as it is; None where it holds nothing, or nobody can look into it."""
    try:
        return _looked_into(value)
    except Exception:  # noqa: BLE001 - whatever the users' own properties and containers raise
        return None


def _looked_into(value: Any) -> tuple[Sequence[Any], Any] | None:
    kind = type(value)
    if isinstance(value, _IMMUTABLE + _BY_IDENTITY):
        return None
    if kind in _CALLABLES:
        return _behind(value)
    if _is_array(value):
        # Bytes: NaN is not equal to itself. An array of objects holds these.
        holds_objects = value.dtype.hasobject
        plain = (value.dtype.str, value.shape, None if holds_objects else value.tobytes())
        return value.ravel().tolist() if holds_objects else (), plain
    attributes = _attributes(value)
    if attributes is None:
        return None
    names = tuple(attributes)
    if isinstance(value, dict):
        return (*value, *value.values(), *attributes.values()), (len(value), names)
    if isinstance(value, set | frozenset):
        return (*attributes.values(),), (names, frozenset((type(item), item) for item in value))
    items = tuple(value) if isinstance(value, list | tuple | deque) else ()
    return (*items, *attributes.values()), (len(items), names)


def _is_array(value: Any) -> bool:
    """Whether it is an array or a number of NumPy."""
    return type(value).__module__ == "numpy" and hasattr(value, "tobytes")


def _kind(value: Any) -> type | str:
    """Its class, which can be pickled: those of functions cannot."""
    return type(value).__name__ if type(value) in _CALLABLES else type(value)


def _behind(function: Any) -> tuple[Sequence[Any], Any] | None:
    """What a function does its work with: two of one line of code are alike if this is."""
    if isinstance(function, partial):
        return (function.func, function.args, function.keywords), None
    if isinstance(function, types.MethodType):
        return (function.__self__, function.__func__), None
    try:
        if attrgetter(function.__qualname__)(sys.modules.get(function.__module__)) is function:
            return None  # there is one of it
    except AttributeError:
        pass  # it was defined within another
    try:
        closed = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        return None  # it is being defined
    held = (function.__defaults__, function.__kwdefaults__, vars(function), *closed)
    return held, (function.__code__, id(function.__globals__))


def _attributes(value: Any) -> dict[str, Any] | None:
    """Of an object, by name in order; None where C keeps what it holds, or it holds nothing."""
    kind = type(value)
    if kind in _CONTAINERS:
        return {}
    base: type = next(base for base in (*_CONTAINERS, types.SimpleNamespace, object) if isinstance(value, base))
    slots = _slots(kind)
    held = getattr(value, "__dict__", None)
    if base is object and not slots and not isinstance(held, dict):
        return None
    if base is not dict and kind.__basicsize__ > base.__basicsize__ + 8 * (len(slots) + 2):
        return None  # a class of C, with fields that Python does not see
    everything = {name: getattr(value, name) for name in slots if hasattr(value, name)} | (held or {})
    return {name: everything[name] for name in sorted(everything)}


def _slots(kind: type) -> list[str]:
    declared = [(each.__name__.lstrip("_"), each.__dict__.get("__slots__", ())) for each in kind.__mro__]
    pairs = [(owner, name) for owner, names in declared for name in ((names,) if isinstance(names, str) else names)]
    # Python has those that begin with two underscores under another name.
    return [
        f"_{owner}{name}" if name.startswith("__") and not name.endswith("__") else name
        for owner, name in pairs
        if name not in ("__dict__", "__weakref__")
    ]


class Watch:
    """Whether anything that a module's parts hold has changed, the tensors aside that are parameters and buffers.

    It is asked before every call: it compares by identity, and calls nothing that users wrote.
    """

    def __init__(self, parts: Sequence[torch.nn.Module], unwatched: Iterable[Any], tensors: Iterable[Any]) -> None:
        """What ``unwatched`` holds may change; ``tensors`` are watched beside those that are settings."""
        self._maps: list[dict[Any, Any]] = []
        self._lists: list[Any] = []
        self._others: list[tuple[Any, Any]] = []
        self._tensors = [(tensor, version(tensor)) for tensor in tensors]
        seen = {id(value) for value in (*parts, *unwatched)}
        holders = [holder for part in parts for holder in (part._parameters, part._buffers)]
        seen |= {id(value) for holder in holders for value in (holder, *holder.values())}
        for part in parts:
            self._maps.append(vars(part))
            for value in vars(part).values():
                self._look(value, seen)
        self._sized = [*self._maps, *self._lists, *holders]
        self._lengths = [*map(len, self._sized)]
        # Most are empty, and their length is all there is to see.
        self._keyed = [each for each in (*self._maps, *holders) if each]
        self._keys = [*chain.from_iterable(self._keyed)]
        self._views = [*(each.values() for each in self._maps if each), *filter(None, self._lists)]
        self._values = [*chain.from_iterable(self._views)]

    def is_changed(self) -> bool:
        """Whether something is another one, or holds something else, than when this was made."""
        try:
            if [*map(len, self._sized)] != self._lengths or [*chain.from_iterable(self._keyed)] != self._keys:
                return True
            if not all(map(is_, chain.from_iterable(self._views), self._values)):
                return True
            for tensor, writes in self._tensors:
                if version(tensor) != writes:
                    return True
            return bool(self._others) and any(_by_identity(value) != before for value, before in self._others)
        except Exception:  # noqa: BLE001 - another thread is changing it, or what a new key's `__eq__` raises
            return True

    def _look(self, setting: Any, seen: set[int]) -> None:
        waiting, count = [setting], 0
        while waiting and count < _MOST:
            value = waiting.pop()
            if isinstance(value, _IMMUTABLE) or id(value) in seen:
                continue
            count += 1
            seen.add(id(value))
            if type(value) in _TENSORS:
                self._tensors.append((value, version(value)))
            elif (held := _held_by(value)) is not None:
                waiting += held[0]
                self._add(value)

    def _add(self, value: Any) -> None:
        if isinstance(value, dict):
            self._maps.append(value)
        elif isinstance(value, list | deque):
            self._lists.append(value)
        elif isinstance(value, set) or type(value).__name__ == "ndarray" or any(_slots(type(value))):
            self._others.append((value, _by_identity(value)))
        if type(value) not in _CALLABLES and isinstance(getattr(value, "__dict__", None), dict):
            self._maps.append(vars(value))


def _by_identity(value: Any) -> Any:
    held = _held_by(value)
    return held and ([*map(id, held[0])], held[1])
