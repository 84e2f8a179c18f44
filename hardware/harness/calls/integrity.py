"""Checks that a candidate changed nothing it must not: functions of torch and of the clock, the harness, global state.

In one process with the candidate nothing is safe for good; this names the usual tricks. What decides are the outputs,
which the reference compares elsewhere, and the supervisor's own clock.
"""

import builtins
import ctypes
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any

import torch

_WATCHED_MODULES = ("torch", "torch.cuda", "torch.nn.functional", "torch.testing", "torch.utils._pytree")
_WATCHED_CLASSES = (torch.cuda.Event, torch.cuda.Stream)
# What checks is bound as defaults, which are looked at: a candidate may replace the built-in functions, and names here.
_code, _defaults, _keyword_defaults = map(attrgetter, ("__code__", "__defaults__", "__kwdefaults__"))


class Snapshot:
    """Taken before the candidate is imported."""

    def __init__(self) -> None:
        self._members = _ready if _ready is not None and _ready.are_all else _Members()
        self._state = _state()

    def differences(self) -> tuple[str, ...]:
        """What is not what it was: qualified names of replaced functions, names of global settings."""
        changed = self._members.changed()
        # New on the class is new to see only if it hides what its base has.
        added = torch.Tensor.__dict__.keys() - self._members.tensor.keys()
        changed += [f"torch.Tensor.{key}" for key in sorted(added) if hasattr(torch._C.TensorBase, key)]
        now = _state()
        changed += [f"{key} ({self._state[key]} before, {now[key]} now)" for key in now if now[key] != self._state[key]]
        return tuple(changed[:8])


def get_ready() -> None:
    """Find once what every process that is forked from this one would find anew for its candidate: 30 to 80 ms."""
    global _ready
    _ready = _Members()


class _Members:
    """What modules and classes hold. All of it is looked at after each call of a candidate, so by functions in C."""

    def __init__(self) -> None:
        own = _own_modules()
        modules = [builtins, time, *(sys.modules[name] for name in _WATCHED_MODULES if name in sys.modules)]
        self._names = {**{module.__name__: len(vars(module)) for module in modules}, **own}
        self._modules = [
            (name, _Table(name, sys.modules[name], _callable(vars(sys.modules[name])))) for name in self._names
        ]
        functions = [function for name in own for function in _functions(name, sys.modules[name])]
        self._functions = functions
        self._bodies = [function.function for function in functions]
        self._code = [*map(_code, self._bodies)]
        self._defaults = [*map(_defaults, self._bodies)]
        self._keyword_defaults = [*map(_keyword_defaults, self._bodies)]
        self._holders = [*_by_holder(functions)]
        self._holders += [(kind, _Table(kind.__qualname__, kind, dict(vars(kind)))) for kind in _WATCHED_CLASSES]
        self.tensor = dict(vars(torch.Tensor))
        for kind in (torch.Tensor, torch._C.TensorBase):
            self._holders.append((kind, _Table("torch.Tensor", kind, dict(vars(kind)))))

    @property
    def are_all(self) -> bool:
        """Whether there would be no others now."""
        names = {name: len(vars(sys.modules[name])) for name in self._names}
        return names | _own_modules() == self._names and not self.changed()

    def changed(self) -> list[str]:
        """Qualified names of those that somebody replaced or changed."""
        changed = [key for name, table in self._modules for key in table.replaced(sys.modules[name])]
        changed += self._changed_functions()
        return changed + [key for holder, table in self._holders for key in table.replaced(holder)]

    def _changed_functions(self, every: Any = all, each: Any = map, same: Any = is_) -> list[str]:
        """A function of the harness may be changed without being replaced."""
        now = self._bodies
        is_as_it_was = (
            every(each(same, each(_code, now), self._code))
            and every(each(same, each(_defaults, now), self._defaults))
            and every(each(same, each(_keyword_defaults, now), self._keyword_defaults))
        )
        if is_as_it_was:
            return []
        before = zip(self._functions, self._code, self._defaults, self._keyword_defaults, strict=True)
        return [
            function.name
            for function, code, defaults, keyword_defaults in before
            if function.function.__code__ is not code
            or function.function.__defaults__ is not defaults
            or function.function.__kwdefaults__ is not keyword_defaults
        ]


_ready: _Members | None = None


class _Table:
    """What a module or class holds, by name."""

    __slots__ = ("_all", "_members", "_name")

    def __init__(self, name: str, holder: Any, members: Mapping[str, Any]) -> None:
        """``members`` are those of ``holder`` that must stay."""
        self._name, self._members, self._all = name, members, [*holder.__dict__.values()]

    def replaced(self, holder: Any, every: Any = all, each: Any = map, same: Any = is_) -> list[str]:
        """Qualified names of those that ``holder`` has no more."""
        now = holder.__dict__
        # Mostly nothing at all has changed, which is seen without a look at the names.
        if len(now) == len(self._all) and every(each(same, now.values(), self._all)):
            return []
        return [
            f"{self._name}.{key}" for key, value in self._members.items() if key not in now or now[key] is not value
        ]


def _own_modules() -> dict[str, int]:
    """How many names each has."""
    package = __name__.partition(".")[0] + "."
    return {name: len(vars(module)) for name, module in sys.modules.items() if name.startswith(package)}


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of the harness: ``holder.key`` or inside it (a property, a class method)."""

    holder: Any
    holder_name: str
    key: str
    function: types.FunctionType

    @property
    def name(self) -> str:
        """What people read."""
        return f"{self.holder_name}.{self.key}"


def _functions(module_name: str, module: types.ModuleType) -> Iterator[_Function]:
    for key, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        # A class's own members are looked at, too.
        is_class = isinstance(value, type)
        holder, keys = (value, list(vars(value))) if is_class else (module, [key])
        for name in keys:
            member = vars(holder)[name]
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if isinstance(function, types.FunctionType):
                yield _Function(holder, f"{module_name}.{key}" if is_class else module_name, name, function)


def _by_holder(functions: list[_Function]) -> Iterator[tuple[Any, _Table]]:
    """Who else got hold of a module or class looks at another place of ``sys.modules``."""
    keys: dict[int, list[_Function]] = {}
    for function in functions:
        keys.setdefault(id(function.holder), []).append(function)
    for among in keys.values():
        holder = among[0].holder
        members = {function.key: vars(holder)[function.key] for function in among}
        yield holder, _Table(among[0].holder_name, holder, members)


def _callable(table: Mapping[str, Any]) -> dict[str, Any]:
    """Functions and classes only: data changes in the ordinary course, and modules load more of themselves lazily."""
    return {key: value for key, value in table.items() if callable(value)}


def _state() -> dict[str, Any]:
    """Settings that checks and clocks rely on. Precision of products and cuDNN's search are a file's own affair inside
    its process: what they do to the numbers and to the time is judged.
    """
    return {
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "number of threads": torch.get_num_threads(),
        "grad mode": torch.is_grad_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "denormal numbers": "flushed" if sys.float_info.min * _HALF == 0.0 else "kept",
        "trace function": sys.gettrace() is not None,
        "profile function": sys.getprofile() is not None,
        "bytes of cache set aside to persist": _persisting(),
    }


def _persisting() -> int:
    """What flushes between timed calls may not reach: inputs would lie in it from one call to the next."""
    limit = ctypes.c_size_t()
    is_known = _get_limit is not None and _is_initialized() and _get_limit(ctypes.byref(limit), _PERSISTING_L2) == 0
    return limit.value if is_known else 0


def _limit_of_driver() -> Callable[..., int] | None:
    try:
        return ctypes.CDLL("libcuda.so.1").cuCtxGetLimit
    except (OSError, AttributeError):
        return None


_PERSISTING_L2 = 6
"""``CU_LIMIT_PERSISTING_L2_CACHE_SIZE``."""
_get_limit = _limit_of_driver()
_is_initialized = torch.cuda.is_initialized


_HALF = 0.5
