"""Sizes of a call's inputs that may be others, as ``torch.export`` spells them, and inputs that have them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from ...schemas import InputError
from .call_arguments import is_structure
from .drawn_inputs import is_dense

DynamicShapes = Mapping[str, Any] | Sequence[Any]
"""As ``torch.export`` takes it: by argument, and in containers as these hold their tensors, dimensions with a
``torch.export.Dim`` each. A tensor in a container may also stand under its own name, ``cache_0``."""

_EXAMPLE = "for example dynamic_shapes={'x': {0: torch.export.Dim('batch', min=1, max=64)}}"
_TAKEN = {"generator", "torch", "device", "inf", "nan", "shapes", "timed", "inputs", "reference"}
"""Names that mean something else in a problem's text."""


@dataclass(frozen=True)
class DynamicSize:
    """A size that may be any from ``low`` to ``high``, the same one at each of its places."""

    name: str
    low: int
    high: int
    places: tuple[tuple[str, int], ...]
    """Names of inputs, each with the dimension there."""


def dynamic_sizes(inputs: Mapping[str, Any], dynamic_shapes: DynamicShapes) -> tuple[DynamicSize, ...]:
    """The sizes that ``dynamic_shapes`` lets differ.

    Args:
        inputs: a call's, by name as :func:`.call_arguments.flattened` gives them.
        dynamic_shapes: which dimensions differ, and from which size to which.

    Raises:
        InputError: it names no dimension of a tensor, or no range.
    """
    import torch

    tensors = {label: value for label, value in inputs.items() if isinstance(value, torch.Tensor)}
    ranges: dict[str, tuple[int, int]] = {}
    places: dict[str, list[tuple[str, int]]] = {}
    for label, dims in _by_tensor(inputs, dynamic_shapes):
        if label not in tensors:
            raise InputError(f"`dynamic_shapes` names {label!r}: the tensors among the inputs are {', '.join(tensors)}")
        if isinstance(dims, list | tuple):
            dims = dict(enumerate(dims))
        if not isinstance(dims, Mapping):
            raise InputError(f"`dynamic_shapes` has a {type(dims).__name__} for {label!r}: give dimensions, {_EXAMPLE}")
        for axis, dim in dims.items():
            if dim is None:
                continue
            rank = tensors[label].ndim
            if type(axis) is not int or not -rank <= axis < rank:
                raise InputError(f"`dynamic_shapes` names dimension {axis!r} of {label!r}, which has {rank} dimensions")
            if type(dim) is not torch.export.Dim or type(dim.max) is not int:
                raise InputError(f"dimension {axis} of {label!r} is {dim!r}: give a Dim with min and max, {_EXAMPLE}")
            if not is_dense(tensors[label]):
                raise InputError(f"input {label!r} is a view with strides of its own: give it .contiguous()")
            name, span = dim.__name__, (max(1, dim.min), dim.max)
            if name in _TAKEN or iskeyword(name) or not span[0] < span[1] or ranges.setdefault(name, span) != span:
                raise InputError(f"{dim!r} cannot be used: give each size a name and a range of its own, {_EXAMPLE}")
            places.setdefault(name, []).append((label, axis % rank))
    return tuple(DynamicSize(name, *ranges[name], tuple(axes)) for name, axes in places.items())


def _by_tensor(inputs: Mapping[str, Any], dynamic_shapes: DynamicShapes) -> Iterator[tuple[str, Any]]:
    """What is given for each tensor, by its name.

    Raises:
        InputError: a container holds other tensors.
    """
    labels, arguments = list(inputs), []
    leaves = 0
    for label, value in inputs.items():
        if leaves == 0:
            arguments.append(label)
        leaves = value.num_leaves if is_structure(value) else max(0, leaves - 1)
    if isinstance(dynamic_shapes, list | tuple):
        if len(dynamic_shapes) != len(arguments):
            given, taken = len(dynamic_shapes), ", ".join(arguments)
            raise InputError(f"`dynamic_shapes` has {given} elements for the arguments {taken}: name them, {_EXAMPLE}")
        dynamic_shapes = dict(zip(arguments, dynamic_shapes, strict=True))
    if not isinstance(dynamic_shapes, Mapping):
        raise InputError(f"`dynamic_shapes` is a {type(dynamic_shapes).__name__}: name the inputs, {_EXAMPLE}")
    for label, dims in dynamic_shapes.items():
        structure: Any = inputs.get(label)
        rows = [(label, dims)]
        if is_structure(structure) and dims is not None:
            names = labels[labels.index(label) + 1 :]
            try:
                rows = list(zip(names, structure.flatten_up_to(dims), strict=False))
            except ValueError as error:
                raise InputError(f"`dynamic_shapes` for {label!r} has to be nested as that is: {error}") from None
        yield from (row for row in rows if row[1] is not None)


def sizes_of(inputs: Mapping[str, Any], dynamic: Sequence[DynamicSize]) -> tuple[int, ...]:
    """What each size is in a call.

    Raises:
        InputError: it is not in its range, or not the same everywhere.
    """
    for each in dynamic:
        for label, axis in each.places:
            size = inputs[label].shape[axis]
            if not each.low <= size <= each.high:
                raise InputError(
                    f"dimension {axis} of {label!r} is {size}, not {each.low} to {each.high} ({each.name})"
                )
            if size != inputs[each.places[0][0]].shape[each.places[0][1]]:
                raise InputError(f"{each.name} is {size} in {label!r}, and another size in {each.places[0][0]!r}")
    return tuple(inputs[each.places[0][0]].shape[each.places[0][1]] for each in dynamic)


def resized(inputs: Mapping[str, Any], dynamic: Sequence[DynamicSize], sizes: Sequence[int]) -> dict[str, Any]:
    """The inputs with other ``sizes``: parts of theirs, or theirs repeated; what ascends still does."""
    import torch

    others = dict(inputs)
    for each, size in zip(dynamic, sizes, strict=True):
        for label, axis in each.places:
            value = others[label]
            places = torch.arange(size, device=value.device) * value.shape[axis] // size
            others[label] = value.index_select(axis, places)
    return others


def sampled_sizes(dynamic: Sequence[DynamicSize]) -> list[tuple[int, ...]]:
    """Sizes at which the operator is traced and kernels have to be right: the ends of the ranges, and odd ones within.

    No two dimensions have the same size in all of them, so that an expression tells which one it is of.
    """
    lows, highs = ([getattr(each, end) for each in dynamic] for end in ("low", "high"))
    rows = [lows, highs]
    if len(dynamic) > 1:
        rows += [[*highs[:at], low, *highs[at + 1 :]] for at, low in enumerate(lows)]
    for first in (0.29, 0.71):
        rows.append([_within(each, (first + 0.23 * at) % 1) for at, each in enumerate(dynamic)])
    return [tuple(row) for row in rows]


def shape_text(label: str, value: Any, dynamic: Sequence[DynamicSize]) -> str:
    """An input's shape as an expression; empty if all of its sizes are fixed."""
    names = {axis: each.name for each in dynamic for name, axis in each.places if name == label}
    sizes = [names.get(axis, str(size)) for axis, size in enumerate(value.shape)]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})" if names else ""


def sizes_text(dynamic: Sequence[DynamicSize], sizes: Sequence[int]) -> str:
    """Sizes by name, for messages and calls."""
    return ", ".join(f"{each.name}={size}" for each, size in zip(dynamic, sizes, strict=True))


def _within(dynamic: DynamicSize, share: float) -> int:
    size = (dynamic.low + int((dynamic.high - dynamic.low) * share)) | 1
    return min(size, dynamic.high)
