"""The arguments of a call as a flat mapping of names, and back: lists, tuples and dictionaries among them leaf by leaf.

A container is there as its structure, under the argument's name; its leaves follow.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

_CONTAINERS = (tuple, list, dict)


def signature_of(operator: Callable[..., Any]) -> inspect.Signature | None:
    """Of a call of ``operator``; None where Python does not know."""
    try:
        return inspect.signature(getattr(operator, "forward", operator))
    except (TypeError, ValueError):
        return None


def by_place_and_name(operator: Callable[..., Any], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as :func:`flattened` gives them, as ``operator`` takes them: by name what is taken so alone, and what
    stands behind one that was left out."""
    signature, nested = signature_of(operator), _nested(named)
    if signature is None:
        return tuple(nested.values()), {}
    arguments: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            arguments[name] = tuple(value for label, value in nested.items() if label not in signature.parameters)
        elif name in nested:
            arguments[name] = nested[name]
    bound = inspect.BoundArguments(signature, arguments)
    return bound.args, bound.kwargs


def flattened(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments by name, those of ``*args`` and of containers one by one."""
    named: dict[str, Any] = {}
    for key, value in bound.arguments.items():
        if bound.signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL:
            for index, item in enumerate(value):
                named |= _leaves(f"{key}{index}", item, bound.signature)
        else:
            named |= _leaves(key, value, bound.signature)
    return named


def defaults_of(signature: inspect.Signature) -> dict[str, Any]:
    """The arguments that have a default, as :func:`flattened` gives them."""
    defaults = {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    return flattened(inspect.BoundArguments(signature, defaults))


def is_structure(value: Any) -> bool:
    """Whether it stands for a container among flat arguments."""
    from torch.utils._pytree import TreeSpec

    return isinstance(value, TreeSpec)


def _leaves(label: str, value: Any, signature: inspect.Signature) -> dict[str, Any]:
    """A value by its name; of a container its structure, and behind it its leaves."""
    if type(value) not in _CONTAINERS:
        return {label: value}
    from torch.utils._pytree import tree_flatten

    leaves, structure = tree_flatten(value)
    named = {label: structure}
    for index, leaf in enumerate(leaves):
        name = f"{label}_{index}"
        while name in signature.parameters:
            name += "_"
        named[name] = leaf
    return named


def _nested(named: Mapping[str, Any]) -> dict[str, Any]:
    from torch.utils._pytree import tree_unflatten

    items = iter(named.items())
    return {
        label: tree_unflatten([next(items)[1] for _ in range(value.num_leaves)], value)
        if is_structure(value)
        else value
        for label, value in items
    }
