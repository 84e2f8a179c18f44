"""Part of every finished file: between one module and the candidate's, which computes for it and shares its tensors."""

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from .conditions import KERNEL
from .constructor import without_data
from .functions import tell_autograd
from .own_backward import differentiable

Call = Callable[..., Any]
_has_any_global_hook = torch.nn.modules.module._has_any_global_hook
_HOLDERS = ("_parameters", "_buffers")
_MISSING = object()
WITHOUT_DATA_BYTES = 64 << 20
"""Weights of a module on a GPU from which on the candidate's is made without any: drawing takes 1.5 s a gigabyte."""


class Cell:
    """A parameter or buffer of the module, and where the candidate's module keeps the same one."""

    __slots__ = ("dtype", "holder", "inner", "inner_key", "inner_path", "key", "path", "tensor", "version")

    def __init__(self, path: str, holder: dict[str, Any], key: str, inner_name: str) -> None:
        """``inner_name`` is what the candidate's module calls it."""
        self.path, self.holder, self.key, self.inner = path, holder, key, None
        self.inner_path, _, self.inner_key = inner_name.rpartition(".")
        self.tensor = holder[key]
        self.dtype = None if self.tensor is None else self.tensor.dtype
        self.version = -1

    def share(self, inner: Any) -> bool:
        """Put the tensor into the candidate's module; False if that has no place for it."""
        parent = _inside(inner, self.inner_path)
        if parent is None or not any(self.inner_key in getattr(parent, holder) for holder in _HOLDERS):
            self.inner = None
            self.version = _version(self.tensor)
            return self.tensor is None or self.key not in inner.state_dict()
        self.inner = parent
        self._set()
        return True

    def follow(self) -> bool:
        """Take the tensor that the module has there now; False if it is of another kind."""
        value: Any = self.holder.get(self.key)
        if value is None or type(value) is not type(self.tensor) or value.dtype is not self.dtype:
            return False
        if value.layout is not torch.strided or (self.inner is None and self.version >= 0):
            return False
        self.tensor = value
        if self.inner is not None:
            self._set()
        return True

    def take(self) -> None:
        """Give the module what the candidate's has there after a call."""
        if self.inner is None:
            return
        value = getattr(self.inner, self.inner_key)
        if value is not self.tensor:
            self.tensor = self.holder[self.key] = value
        tell_autograd(value)

    def _set(self) -> None:
        try:
            # Not into its dictionary at once: recurrent modules keep a list of their weights beside it.
            setattr(self.inner, self.inner_key, self.tensor)
        except TypeError:
            holders = [getattr(self.inner, holder) for holder in _HOLDERS]
            next(holder for holder in holders if self.inner_key in holder)[self.inner_key] = self.tensor


class Attribute:
    """State of the module that is neither parameter nor buffer: a counter, a tensor."""

    __slots__ = ("inner", "key", "outer", "path")

    def __init__(self, path: str, outer: Any, key: str) -> None:
        self.path, self.outer, self.key, self.inner = path, weakref.ref(outer), key, None

    def share(self, inner: Any) -> bool:
        """Where the candidate's module keeps it; False if it has no such place."""
        self.inner = _inside(inner, self.path)
        return self.inner is not None

    def is_at(self, place: str) -> bool:
        """Whether it is where the candidate's kernels find it: ``Module.to`` does not move a tensor that is no buffer.

        A reference that moves it by itself does so in the first call, which is left to it. A single number may stay in
        main memory where the candidate's module has it there, too.
        """
        value, own = getattr(self.outer(), self.key, None), getattr(self.inner, self.key, None)
        if not place or not isinstance(value, torch.Tensor) or getattr(value, place):
            return True
        return value.ndim == 0 and value.is_cpu and isinstance(own, torch.Tensor) and own.is_cpu

    def give(self) -> None:
        """Before a call: as the module has it."""
        value = getattr(self.outer(), self.key, _MISSING)
        if value is not _MISSING and getattr(self.inner, self.key, _MISSING) is not value:
            setattr(self.inner, self.key, value)

    def take(self) -> None:
        """After a call: as the candidate's module left it."""
        value = getattr(self.inner, self.key, _MISSING)
        if value is not _MISSING and getattr(self.outer(), self.key, _MISSING) is not value:
            setattr(self.outer(), self.key, value)
        tell_autograd(value)


class Bridge:
    """Whether the candidate's module may compute for this one, now; and what has to be exchanged if so."""

    def __init__(self, finished: Any, owner: Any, is_searched: bool, training: tuple[bool, ...] = ()) -> None:
        """``training`` are the modes that were searched, where ``owner`` is a copy that may be in others."""
        self._finished, self._is_searched = finished, is_searched
        self._owner = weakref.ref(owner)
        self._guard = threading.RLock()
        self._inner: Any = None
        self._call: Call | None = None
        self._differentiable: Call | None = None
        self.refusal: Any = ()
        self.has_state = bool(finished.state)
        modules = dict(owner.named_modules()) if is_searched else {}
        self._training = training or tuple(module.training for module in modules.values())
        self._is_searched = is_searched and len(self._training) == len(modules)
        counted = {path for path, _, kind in finished.state if kind == "attribute"}
        self._settings = [
            (module.__dict__, _settings(module, mode, module is owner, skip), skip)
            for (path, module), mode in zip(modules.items(), self._training, strict=False)
            for skip in [derived(module) | {k for p, k, kind in finished.state if p == path and kind == "attribute"}]
        ]
        self._attributes = [
            Attribute(path, modules[path], key)
            for path, key, kind in finished.state
            if kind == "attribute" and path in counted & modules.keys()
        ]
        self._cells = [
            Cell(path, getattr(module, holder), key, finished.renamed.get(name := f"{path}.{key}".lstrip("."), name))
            for path, module in modules.items()
            for holder in _HOLDERS
            for key in getattr(module, holder)
        ]
        self._derived = [(module.__dict__, key) for module in modules.values() for key in derived(module)]
        changed = {(path, key) for path, key, _ in finished.state}
        self._written = [cell for cell in self._cells if (cell.path, cell.key) in changed]
        self._unshared: list[Cell] = []

    def kept(self, owner: Any) -> tuple[bool, tuple[bool, ...]]:
        """What a copy starts from: whether it is still what was searched, and in which modes that was."""
        intact = self._is_searched and self._owner() is owner and not self._is_changed(but_modes=True)
        return intact, self._training

    def ready(self, owner: Any, way: int, arguments: tuple[Any, ...]) -> Call | None:
        """What to call instead of the reference; None where that has to be called."""
        if not self._is_searched or self._owner() is not owner or _has_any_global_hook() or self._is_changed():
            return None
        place, is_grad_enabled = self._finished.place, torch.is_grad_enabled()
        for cell in self._cells:
            tensor = cell.tensor
            if cell.holder.get(cell.key) is not tensor:
                if not cell.follow():
                    return None
                tensor = cell.tensor
            if tensor is not None:
                if tensor.dtype is not cell.dtype or (place and not getattr(tensor, place)):
                    return None
                if is_grad_enabled and tensor.requires_grad:
                    way = -1
        if way != KERNEL and not self._finished.own:
            return None
        if self._call is None and not self._make(arguments):
            return None
        if not all(attribute.is_at(place) for attribute in self._attributes):
            return None
        if self._unshared and any(_version(cell.tensor) != cell.version for cell in self._unshared):
            return None
        for attribute in self._attributes:
            attribute.give()
        for values, key in self._derived:
            # The reference's call would make it anew; without a graph it can be copied.
            values[key] = values[key].detach()
        return self._call if way == KERNEL else self._with_gradients(way)

    def take_state(self) -> None:
        """Give the module what the call left in the candidate's."""
        for cell in self._written:
            cell.take()
        for attribute in self._attributes:
            attribute.take()

    def _is_changed(self, *, but_modes: bool = False) -> bool:
        """Whether anything but tensors is not what the constructor had made: settings, modules, modes, hooks."""
        try:
            for now, then, skip in self._settings:
                if skip:
                    now = {key: value for key, value in now.items() if key not in skip}
                if now != (then if not but_modes else {**then, "training": now.get("training")}):
                    return True
        except (RuntimeError, TypeError, ValueError):
            # Another tensor where one was: these do not say whether they are equal.
            return True
        return False

    def _with_gradients(self, way: int) -> Call | None:
        """The candidate's own: its ``backward`` knows of inputs only."""
        if self._differentiable is None:
            return self._call
        return None if way == -1 else self._differentiable

    def _make(self, arguments: tuple[Any, ...]) -> bool:
        """Make the candidate's module; nothing of it shows in ours, nor in anybody's random numbers."""
        finished = self._finished
        with self._guard:
            if self._call is not None:
                return True
            with torch.inference_mode(False), torch.random.fork_rng(devices=[]):
                module = finished.candidate.module()
                inner = self._made_without_data(module.ModelNew) if self._is_large else None
                if inner is None:
                    if self._is_large:
                        # What it kept outside of the module has no numbers, either.
                        module = finished.candidate.made_anew()
                    inner = finished.made(module.ModelNew)
                    inner.to(next((value.device for value in arguments if isinstance(value, torch.Tensor)), "cpu"))
                    if not self._share(inner):
                        self._is_searched = False
                        return False
            self._unshared = [cell for cell in self._cells if cell.inner is None and cell.tensor is not None]
            call = inner.forward if not _has_hooks(inner) else inner
            backward = getattr(module, "backward", None)
            if finished.own and backward is not None:
                self._differentiable = differentiable(call, backward, self._reference)
            self._inner, self.refusal = inner, finished.candidate.refusal()
            self._call = call
        return True

    def _made_without_data(self, make: Callable[..., Any]) -> Any:
        """The candidate's module where all its tensors are ours: drawing some for it would take time, and memory.

        None where it has others, or looks at numbers when it is made.
        """
        with contextlib.suppress(Exception):
            inner, has_others_alone = self._finished.made(without_data(make))
            if self._share(inner) and has_others_alone(self._finished.place):
                return inner
        return None

    @property
    def _is_large(self) -> bool:
        size = sum(cell.tensor.nbytes for cell in self._cells if cell.tensor is not None)
        return bool(self._finished.place == "is_cuda" and size >= WITHOUT_DATA_BYTES)

    def _share(self, inner: Any) -> bool:
        parts: list[Cell | Attribute] = [*self._cells, *self._attributes]
        return all(part.share(inner) for part in parts)

    def _reference(self, *arguments: Any) -> Any:
        return self._finished.reference.Model.forward(self._owner(), *arguments)


def _settings(module: Any, training: bool, is_owner: bool, skip: frozenset[str]) -> dict[str, Any]:
    """What must stay as it is for the candidate to compute the same: hooks of parts as well, those that the constructor
    made are in the graph that was searched. The owner's own hooks run around its forward."""
    attributes = {**module.__dict__, "training": training}
    for key, value in module.__dict__.items():
        if key in _HOLDERS or (is_owner and key.endswith("_hooks")):
            continue
        if key.startswith("_") and isinstance(value, dict | set):
            attributes[key] = type(value)(value)
    return {key: value for key, value in attributes.items() if key not in skip}


def derived(module: Any) -> frozenset[str]:
    """Names of the tensors that hooks make of parameters before each call: they are no state, and the kernel, which
    makes them as well, leaves them as they are."""
    hooks = [h for h in module._forward_pre_hooks.values() if type(h).__module__.startswith("torch.nn.utils.")]
    names = {getattr(hook, "name", None) or getattr(hook, "_tensor_name", None) for hook in hooks}
    return frozenset(names & vars(module).keys())


def _has_hooks(module: Any) -> bool:
    return any(value for key, value in vars(module).items() if key.endswith("_hooks"))


def _inside(module: Any, path: str) -> Any:
    """The part of ``module`` at ``path``; None if there is none."""
    for name in filter(None, path.split(".")):
        module = getattr(module, name, None)
    return module


def _version(tensor: Any) -> int:
    return -1 if tensor is None or tensor.is_inference() else int(tensor._version)
