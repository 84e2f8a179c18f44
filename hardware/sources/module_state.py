"""What a module keeps: parameters and buffers, settings, lists and tensors; and calls with others in their place."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .drawn_inputs import copied
from .kept_settings import KeptTensor, version


def settings(operator: Any) -> list[tuple[type, dict[str, Any]]]:
    """What a module and its parts keep beside parameters, buffers and parts: class and attributes of each."""
    if not isinstance(operator, torch.nn.Module):
        return []
    machinery = vars(torch.nn.Module()).keys() - {"training"}
    return [
        (type(part), {key: value for key, value in vars(part).items() if key not in machinery})
        for part in operator.modules()
    ]


def is_held(value: Any) -> bool:
    """Whether it lists a module's own parameters, as recurrent modules do."""
    kinds = (torch.nn.Parameter, weakref.ref)
    return isinstance(value, list) and bool(value) and all(isinstance(item, kinds) for item in value)


def contents_of(operator: Any) -> list[tuple[Any, Any]]:
    """The lists and tensors among a module's attributes, each with what is in it."""
    if not isinstance(operator, torch.nn.Module):
        return []
    values = [value for part in operator.modules() for value in vars(part).values()]
    lists = [(value, list(value)) for value in values if isinstance(value, list)]
    return lists + [(KeptTensor(value), copied(value.detach())) for value in values if type(value) is torch.Tensor]


def restored(
    operator: Any,
    before: Sequence[tuple[type, dict[str, Any]]],
    contents: Sequence[tuple[Any, Any]],
) -> str:
    """Give the module back the attributes that it had; the name of one that a call had changed, or nothing."""
    lists = [(value, items) for value, items in contents if isinstance(value, list)]
    written = [id(value) for value, items in lists if len(value) != len(items)]
    for value, items in lists:
        value[:] = items  # a recurrent module's weights as well, which a traced call replaces
    for value, numbers in contents:
        if isinstance(value, KeptTensor) and version(value.tensor) != value.version:
            written.append(id(value.tensor))
            with torch.no_grad():
                value.tensor.copy_(numbers)
    changed = ""
    for part, (_, now), (_, then) in zip(operator.modules() if before else (), settings(operator), before, strict=True):
        for key in now.keys() | then.keys():
            if key not in then:
                del vars(part)[key]
            elif now.get(key) is not then[key]:
                vars(part)[key] = then[key]
            elif id(then[key]) not in written:
                continue
            changed = changed if is_held(then.get(key)) else key
    return changed


def buffers_of(operator: Any) -> list[dict[str, Any]]:
    """The buffers of a module and its parts, those that are None included."""
    return [dict(part._buffers) for part in operator.modules()] if isinstance(operator, torch.nn.Module) else []


def without_new_buffers(operator: Any, before: Sequence[dict[str, Any]]) -> str:
    """Take away the buffers that a call made; the name of one, or nothing."""
    name = ""
    for part, then in zip(operator.modules() if before else (), before, strict=True):
        for key in [key for key, value in part._buffers.items() if value is not None and then.get(key) is None]:
            name = key
            if key in then:
                part._buffers[key] = None
            else:
                delattr(part, key)
    return name


def parameters_of(operator: Callable[..., Any]) -> dict[str, Any]:
    """A module's parameters and buffers by name, as a graph takes them; none for a function."""
    if not isinstance(operator, torch.nn.Module):
        return {}
    held = {**dict(operator.named_parameters()), **dict(operator.named_buffers())}
    return {key: value.detach() for key, value in held.items()}


def called(
    operator: Callable[..., Any], positional: Sequence[Any], named: Mapping[str, Any], held: Mapping[str, Any]
) -> Any:
    """The result of a call with ``held``, by name, in the place of a module's parameters and buffers."""
    if not held:
        return operator(*positional, **named)
    weights = dict(held)
    result = torch.func.functional_call(operator, weights, tuple(positional), dict(named))
    for key, value in weights.items():
        if value is not held[key]:
            held[key].copy_(value)  # the module put another tensor there: for a function that is a write
    return result
