"""What a module keeps between calls, while it is captured: a copy to trace on, its tensors, what a call changed."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...schemas import ProblemError


class UnwritableState(ProblemError):
    """The reference changes what generated kernels cannot write."""


def traceable_copy(target: Any, attributes: Sequence[str] = ()) -> Any:
    """``target`` for one trace: a module of its own, or the function itself.

    A trace runs the module's own code, which counts its calls, moves its averages and scales its weights.

    Args:
        target: module or function.
        attributes: of the module, that are buffers in the copy.

    Raises:
        UnwritableState: there are some, and the module cannot be copied.
    """
    import torch

    if not isinstance(target, torch.nn.Module):
        return target
    computed = [value for value, _ in _attributes(target).values() if isinstance(value, torch.Tensor)]
    memo = {id(value): value.detach().clone() for value in computed if not value.is_leaf}
    try:
        copied = copy.deepcopy(target, memo)
    except Exception:  # noqa: BLE001 - the module's own code; what cannot be copied is traced as it is
        if attributes:
            raise UnwritableState(_sentence(f"`{attributes[0]}`, a tensor that is no buffer")) from None
        return target
    for path in attributes:
        parent, _, name = path.rpartition(".")
        owner = copied.get_submodule(parent)
        owner.register_buffer(name, vars(owner).pop(name).detach(), persistent=False)
    return copied


def tensor_names(target: Any) -> dict[int, list[str]]:
    """The qualified names of every parameter and buffer of a module, by ``id``."""
    import torch

    names: dict[int, list[str]] = {}
    if isinstance(target, torch.nn.Module):
        named = [*target.named_parameters(remove_duplicate=False), *target.named_buffers(remove_duplicate=False)]
        for name, value in named:
            names.setdefault(id(value), []).append(name)
    return names


def state_of(target: Any) -> dict[str, Any]:
    """Every parameter and buffer of a module once, by its first name."""
    import torch

    if not isinstance(target, torch.nn.Module):
        return {}
    return {**dict(target.named_parameters()), **dict(target.named_buffers())}


def is_reassigned(target: Any, before: dict[str, Any]) -> bool:
    """Whether a call put other tensors in the place of parameters or buffers."""
    after = state_of(target)
    return after.keys() != before.keys() or any(after[name] is not value for name, value in before.items())


def surely_writes(target: Any) -> bool:
    """Whether calls move averages, and can write no tensor beside parameters and buffers."""
    import torch

    if not isinstance(target, torch.nn.Module):
        return False
    values = [leaf for value, items in _attributes(target).values() for leaf in (value, *(items or ()))]
    averages = (m for m in target.modules() if isinstance(m, torch.nn.modules.batchnorm._NormBase))
    moves = any(norm.training and norm.track_running_stats and norm.running_mean is not None for norm in averages)
    return moves and not any(isinstance(value, torch.Tensor) for value in values)


@contextmanager
def attributes_kept(target: Any) -> Iterator[dict[str, Any]]:
    """Nothing else of a module may change while it is traced, but for tensors that a call makes anew.

    A weight that is computed of others in every call is an example. What stood there is in the dictionary afterwards,
    by name: a call that reads it depends on the one before.

    Raises:
        UnwritableState: an attribute that is neither parameter nor buffer did.
    """
    import torch

    before = _attributes(target)
    replaced: dict[str, Any] = {}
    yield replaced
    for name, (value, items) in _attributes(target).items():
        old, old_items = before.get(name, (None, None))
        is_cache = old is None and not _is_number(value)
        if value is not old and isinstance(value, torch.Tensor) and isinstance(old, torch.Tensor):
            replaced[name] = old
            continue
        same = value is old or _is_equal(value, old) or is_cache
        if not same or (items is not None and old_items is not None and not _are_same(items, old_items)):
            raise UnwritableState(_sentence(f"`{name}`, {_kind(value)}"))


def check_reads(replaced: dict[str, Any], tensors: list[Any]) -> None:
    """``tensors`` are read, and none of them is among those that were ``replaced``.

    Raises:
        UnwritableState: one is: the next call reads what this one left.
    """
    for name, old in replaced.items():
        if any(tensor is old for tensor in tensors):
            raise UnwritableState(_sentence(f"`{name}`, {_kind(old)}"))


def carried(target: Any, replaced: dict[str, Any], read: list[Any], written: list[Any]) -> list[str]:
    """Attributes whose tensors are left to the next call, by name.

    Args:
        target: the module that was traced, or a function.
        replaced: what stood where a call put other tensors, by name.
        read: tensors that are no inputs, and that a call reads.
        written: those that it writes in place.

    Raises:
        UnwritableState: what is written is neither parameter, buffer nor attribute.
    """
    import torch

    names = tensor_names(target)
    changed = [tensor for tensor in written if id(tensor) not in names]
    changed += [old for old in replaced.values() if any(tensor is old for tensor in read)]
    attributes = {name: value for name, (value, _) in _attributes(target).items()} | replaced
    kept = [*state_of(target).values(), *(v for v in attributes.values() if isinstance(v, torch.Tensor))]
    memory = [tensor.untyped_storage()._cdata for tensor in kept]
    places = {id(value): name for name, value in attributes.items()}
    for tensor in changed:
        name = places.get(id(tensor))
        if name is None or memory.count(tensor.untyped_storage()._cdata) > 1:
            subject = (
                f"`{name}`, a tensor that lies in another's memory" if name else "a tensor that is none of its inputs"
            )
            raise UnwritableState(_sentence(subject))
    return list(dict.fromkeys(places[id(tensor)] for tensor in changed))


def _sentence(subject: str) -> str:
    return f"the reference changes {subject}, which generated kernels cannot write"


def _attributes(target: Any) -> dict[str, tuple[Any, list[Any] | None]]:
    """Every attribute of a module and its submodules, and of containers what they hold."""
    import torch

    if not isinstance(target, torch.nn.Module):
        return {}
    attributes = {}
    for path, module in target.named_modules():
        for name, value in vars(module).items():
            if name not in ("_parameters", "_buffers", "_modules", "_flat_weights", "_flat_weight_refs"):
                attributes[f"{path}.{name}".lstrip(".")] = value, _items(value)
    return attributes


def _items(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return list(value) if isinstance(value, list | set) else None


def _are_same(items: list[Any], others: list[Any]) -> bool:
    return len(items) == len(others) and all(a is b or _is_equal(a, b) for a, b in zip(items, others, strict=True))


def _is_equal(value: Any, other: Any) -> bool:
    if isinstance(value, tuple) and isinstance(other, tuple):
        return _are_same(list(value), list(other))
    plain = (bool, int, float, str, bytes)
    return isinstance(value, plain) and type(value) is type(other) and bool(value == other)


def _is_number(value: Any) -> bool:
    import torch

    return isinstance(value, bool | int | float | torch.SymInt | torch.SymFloat)


def _kind(value: Any) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return "a tensor that is no buffer"
    return "a Python number" if _is_number(value) else f"a Python {type(value).__name__}"
