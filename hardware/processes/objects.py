"""Objects on their way to a candidate: what Python can pickle, the problem's own classes by their names.

A candidate's process never sees the problem's file. Where the problem has a class of its own, the candidate gets
objects of the class of that name in its own file, else of a class with the same fields, values and bases, but no
methods. Tensors do not travel here: the pickle has their numbers. Only the children that run kernels read one, and what
they read comes from the process of the reference, never from a candidate.
"""

import copy
import copyreg
import dataclasses
import enum
import functools
import importlib
import io
import pickle
import sys
import sysconfig
import types
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import torch

_own: types.ModuleType | None = None
"""The module of this process whose classes are taken."""
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class CannotTravel(TypeError):
    """An object that no other process can be given; the message says which, and why."""


def use_classes_of(module: types.ModuleType) -> None:
    """From now on objects in this process are of the classes that ``module`` defines, where it has one of the name."""
    global _own
    _own = module


def packed(value: Any) -> tuple[bytes, list[torch.Tensor]]:
    """``value`` as bytes, and the tensors in it, in the order of their numbers.

    Raises:
        CannotTravel: it holds a function of the problem, an open file, or another thing that cannot be sent.
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(value)
    except RecursionError:
        raise CannotTravel(f"a {type(value).__name__} that is nested too deeply") from None
    except Exception as error:  # noqa: BLE001 a property of the object may raise anything
        raise CannotTravel(_refusal(value, error)) from None
    return file.getvalue(), pickler.tensors


def unpacked(data: bytes, tensors: Sequence[torch.Tensor]) -> Any:
    """What :func:`packed` had, with these tensors."""
    return _Unpickler(io.BytesIO(data), tensors).load()


def of_own_classes(value: Any) -> Any:
    """``value`` once more, made after the candidate's file was imported."""
    return unpacked(*packed(value))


def alike(first: Any, second: Any) -> bool:
    """Whether two objects have the same attributes, apart from tensors."""
    try:
        return packed(first)[0] == packed(second)[0]
    except CannotTravel:
        return False


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor in an object, as :func:`packed` numbers them; none where it cannot travel."""
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return []
    try:
        return packed(value)[1]
    except CannotTravel:
        return []


def can_travel(value: Any) -> bool:
    """Whether another process can be given an object."""
    try:
        packed(value)
    except CannotTravel:
        return False
    return True


def with_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A copy of an object in which every tensor is changed; the object itself where it has none."""
    tensors = tensors_in(value)
    return copy.deepcopy(value, {id(tensor): change(tensor) for tensor in tensors}) if tensors else value


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.tensors: list[torch.Tensor] = []

    def persistent_id(self, value: Any) -> tuple[int, bool] | None:
        if not isinstance(value, torch.Tensor):
            return None
        self.tensors.append(value)
        return len(self.tensors) - 1, isinstance(value, torch.nn.Parameter)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type):
            return (_class_of, _description(value)) if _is_own(value) else NotImplemented
        if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
            return _function(value)
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return complex, ()  # a size in a result that is traced: only the tensors beside it are asked for
        kind = type(value)
        if isinstance(value, dict) and dataclasses.is_dataclass(kind):
            # Results of Hugging Face's models hold every tensor as an item and as a field, and reduce to both.
            rest = {name: item for name, item in vars(value).items() if name not in value}
            return copyreg.__newobj__, (kind,), rest, None, iter(value.items())  # type: ignore[attr-defined]
        # A class may have other slots where it is made again, so the state is a dictionary of attributes.
        reduced = vars(object)
        is_plain = all(getattr(kind, name) is reduced[name] for name in ("__reduce__", "__reduce_ex__"))
        if is_plain and all(map(_is_own, kind.__mro__[:-1])):
            return object.__new__, (kind,), _attributes(value), None, None, _set_attributes
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, pid: tuple[int, bool]) -> Any:
        number, is_parameter = pid
        tensor = self._tensors[number]
        return torch.nn.Parameter(tensor, tensor.is_floating_point()) if is_parameter else tensor


def _is_own(kind: Any) -> bool:
    """Whether a class or function is the problem's: neither of Python nor of an installed package."""
    if kind.__module__ is None:
        return False
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return not file.startswith(_LIBRARIES) if file else module is None


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: getattr(value, name) for name in (*slots, *getattr(value, "__dict__", ())) if hasattr(value, name)}


def _set_attributes(value: Any, attributes: dict[str, Any]) -> None:
    for name, item in attributes.items():
        object.__setattr__(value, name, item)  # a frozen dataclass has no other way


def _description(kind: type) -> tuple[str, str, tuple[type, ...], dict[str, Any]]:
    bases = tuple(base for base in kind.__mro__[1:-1] if not _is_own(base))
    bases = tuple(base for base in bases if not any(base in other.__mro__[1:] for other in bases))
    if issubclass(kind, enum.Enum):
        return kind.__name__, "enum", bases, {member.name: member.value for member in kind}
    if dataclasses.is_dataclass(kind):
        return kind.__name__, "dataclass", bases, {field.name: None for field in dataclasses.fields(kind)}
    names = getattr(kind, "_fields", ())
    return kind.__name__, "namedtuple" if issubclass(kind, tuple) and names else "plain", bases, dict.fromkeys(names)


def _class_of(name: str, form: str, bases: tuple[type, ...], fields: dict[str, Any]) -> type:
    """The class of that name of the candidate's file, or one like it."""
    own = getattr(_own, name, None)
    if isinstance(own, type):
        return own
    kind: Any
    if form == "enum":
        kind = bases[-1](name, fields, **({"type": bases[0]} if len(bases) > 1 else {}))
    elif form == "namedtuple":
        make: Any = namedtuple
        kind = make(name, fields, rename=True)
    elif form == "dataclass":
        kind = dataclasses.make_dataclass(name, fields, bases=bases)
    else:
        kind = type(name, bases, {})
    kind.__module__ = ""
    return kind  # type: ignore[no-any-return]


def _function(value: Any) -> Any:
    """torch.relu calls itself a part of a class of which there is no trace."""
    if name := _torch_name(value):
        return _by_name, (name,)
    if value is not _by_name and value is not _class_of and value is not _set_attributes and _is_own(value):
        raise CannotTravel("a function")
    return NotImplemented


def _torch_name(value: Any) -> str:
    """The name by which a function of torch is imported; empty for what is none."""
    module = getattr(value, "__module__", None)
    for path in (getattr(value, "__qualname__", ""), getattr(value, "__name__", "")):
        try:
            if path and _by_name(f"{module}:{path}") is value:
                return f"{module}:{path}"
        except (ImportError, AttributeError):
            continue
    return ""


def _by_name(name: str) -> Any:
    module, _, path = name.partition(":")
    if module.partition(".")[0] != "torch":
        raise ImportError(f"{name} is not of torch")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))


def _refusal(value: Any, error: Exception) -> str:
    what = f"a {type(value).__name__}"
    return what if isinstance(value, types.FunctionType) else f"{what} ({error})"
