"""What a candidate must leave as it found it: functions of torch and of the clock, the harness, global state.

In one process with the candidate nothing is safe for good; this names the usual tricks. What decides are the outputs,
which the reference compares elsewhere, and the supervisor's own clock.
"""

import builtins
import ctypes
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

_WATCHED_MODULES = ("torch", "torch.cuda", "torch.nn.functional", "torch.testing", "torch.utils._pytree")
_WATCHED_CLASSES = (torch.cuda.Event, torch.cuda.Stream)
_MISSING = object()


class Snapshot:
    """Taken before the candidate is imported."""

    def __init__(self) -> None:
        self._tables = [
            (builtins.__name__, _copy(builtins.__dict__)),
            (time.__name__, _copy(time.__dict__)),
            *((name, _copy(sys.modules[name].__dict__)) for name in _WATCHED_MODULES if name in sys.modules),
            *((name, _copy(module.__dict__)) for name, module in _own_modules()),
        ]
        self._functions = [function for name, module in _own_modules() for function in _functions(name, module)]
        self._classes = [(kind, dict(kind.__dict__)) for kind in _WATCHED_CLASSES]
        self._tensor = dict(torch.Tensor.__dict__)
        self._base = dict(torch._C.TensorBase.__dict__)
        self._state = _state()

    def differences(self) -> tuple[str, ...]:
        """What is not what it was: qualified names of replaced functions, names of global settings."""
        changed = [f"{name}.{key}" for name, table in self._tables for key in _replaced(sys.modules[name], table)]
        changed += [function.name for function in self._functions if not function.is_as_it_was]
        for kind, table in self._classes:
            changed += [f"{kind.__qualname__}.{key}" for key in _replaced(kind, table)]
        changed += [f"torch.Tensor.{key}" for key in _replaced(torch.Tensor, self._tensor)]
        # New on the class is new to see only if it hides what its base has.
        added = torch.Tensor.__dict__.keys() - self._tensor.keys()
        changed += [f"torch.Tensor.{key}" for key in sorted(added) if hasattr(torch._C.TensorBase, key)]
        changed += [f"torch.Tensor.{key}" for key in _replaced(torch._C.TensorBase, self._base)]
        now = _state()
        changed += [f"{key} ({self._state[key]} before, {now[key]} now)" for key in now if now[key] != self._state[key]]
        return tuple(changed[:8])


def _own_modules() -> list[tuple[str, types.ModuleType]]:
    package = __name__.partition(".")[0] + "."
    return [(name, module) for name, module in sys.modules.items() if name.startswith(package)]


class _Function:
    """A function of the harness, which may be changed without being replaced."""

    __slots__ = ("_code", "_defaults", "_function", "_holder", "_key", "_keyword_defaults", "_member", "name")

    def __init__(self, name: str, holder: Any, key: str, function: types.FunctionType) -> None:
        """``function`` is ``holder.key`` or inside it (a property, a class method); ``name`` is what people read."""
        self.name = name
        self._holder, self._key, self._member = holder, key, vars(holder)[key]
        self._function, self._code = function, function.__code__
        self._defaults, self._keyword_defaults = function.__defaults__, function.__kwdefaults__

    @property
    def is_as_it_was(self) -> bool:
        """Whether nobody changed it."""
        function = self._function
        return (
            self._holder.__dict__.get(self._key) is self._member
            and function.__code__ is self._code
            and function.__defaults__ is self._defaults
            and function.__kwdefaults__ is self._keyword_defaults
        )


def _functions(module_name: str, module: types.ModuleType) -> Iterator[_Function]:
    for key, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        # A class's own members are looked at, too.
        holder, keys = (value, list(vars(value))) if isinstance(value, type) else (module, [key])
        for name in keys:
            member = vars(holder)[name]
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if isinstance(function, types.FunctionType):
                where = f"{key}.{name}" if holder is value else key
                yield _Function(f"{module_name}.{where}", holder, name, function)


def _copy(table: dict[str, Any]) -> dict[str, Any]:
    """Functions and classes only: data changes in the ordinary course, and modules load more of themselves lazily."""
    return {key: value for key, value in table.items() if callable(value)}


def _replaced(holder: Any, before: dict[str, Any]) -> list[str]:
    now = holder.__dict__
    return [key for key, value in before.items() if now.get(key, _MISSING) is not value]


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
