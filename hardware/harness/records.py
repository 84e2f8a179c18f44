"""Arguments of a module's constructor that are objects: a configuration, a class or a function of torch.

A candidate's process never sees the problem's file. It gets an object of the same class name with the same attributes,
of the candidate file's own class where it has one of that name.
"""

import dataclasses
import enum
import importlib
import types
from collections import namedtuple
from collections.abc import Mapping
from typing import Any

DATACLASS, NAMED_TUPLE, ENUM, PLAIN = "dataclass", "namedtuple", "enum", "plain"


def form_of(value: Any) -> str:
    """How ``value`` is taken apart; empty for what is no record."""
    kind = type(value)
    if isinstance(value, type) or kind.__module__.partition(".")[0] in ("builtins", "torch"):
        return ""
    if dataclasses.is_dataclass(value):
        return DATACLASS
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return NAMED_TUPLE
    if isinstance(value, enum.Enum):
        return ENUM
    return PLAIN if type(getattr(value, "__dict__", None)) is dict and not callable(value) else ""


def fields_of(value: Any, form: str) -> dict[str, Any]:
    """The attributes that make ``value``, by name."""
    if form == DATACLASS:
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if form == NAMED_TUPLE:
        return dict(zip(value._fields, value, strict=True))
    if form == ENUM:
        return {"name": value.name, "value": value.value}
    return dict(vars(value))


def record(form: str, name: str, fields: Mapping[str, Any]) -> Any:
    """An object of a class of that name, with these attributes."""
    if form == NAMED_TUPLE:
        return namedtuple(name, fields)(**fields)
    if form == DATACLASS:
        return dataclasses.make_dataclass(name, list(fields))(**fields)
    return type(name, (types.SimpleNamespace,), {"form": form})(**fields)


def of_own_class(value: Any, module: types.ModuleType) -> Any:
    """``value`` with every record in it, depth first, as an object of the class of its name that ``module`` defines."""
    if isinstance(value, dict):
        return {key: of_own_class(item, module) for key, item in value.items()}
    form = form_of(value)
    if not form:
        return type(value)(of_own_class(item, module) for item in value) if isinstance(value, list | tuple) else value
    fields = {key: of_own_class(item, module) for key, item in fields_of(value, form).items()}
    own = getattr(module, type(value).__name__, None)
    if not isinstance(own, type):
        return record(form, type(value).__name__, fields)
    if form == NAMED_TUPLE:
        return own(**fields)
    if issubclass(own, enum.Enum):
        return own[fields["name"]]
    made = own.__new__(own)
    for key, item in fields.items():
        object.__setattr__(made, key, item)  # a frozen dataclass has no other way
    return made


def torch_name(value: Any) -> str:
    """The name by which a class or function of torch is imported; empty for what is none."""
    module = getattr(value, "__module__", None)
    # torch.relu calls itself a part of a class of which there is no trace.
    for path in (getattr(value, "__qualname__", ""), getattr(value, "__name__", "")):
        name = f"{module}:{path}"
        try:
            if path and by_name(name) is value:
                return name
        except (ImportError, AttributeError):
            continue
    return ""


def by_name(name: str) -> Any:
    """The class or function of torch that :func:`torch_name` names.

    Raises:
        ImportError: it is not torch's.
        AttributeError: torch has none of that name.
    """
    module, _, path = name.partition(":")
    if module.partition(".")[0] != "torch":
        raise ImportError(f"{name} is not of torch")
    value = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value
