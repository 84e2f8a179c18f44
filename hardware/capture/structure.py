"""What a reference returns, flattened as the judge flattens it, and how it is put together again."""

from typing import Any

from ...schemas import ProblemError


def flattened(value: Any) -> tuple[list[Any], str]:
    """The leaves of lists, tuples, dictionaries and objects, depth first, and Python text over ``r0``, ``r1``, … that
    makes ``value`` of them; no text for one leaf or a tuple of leaves. The tensors of an object become a tuple: who
    hands the file over knows its class.

    Raises:
        ProblemError: a dictionary has a key that Python text cannot hold.
    """
    leaves: list[Any] = []
    text = _text(value, leaves)
    is_plain = isinstance(value, tuple) and len(leaves) == len(value) > 1
    return leaves, "" if is_plain or text == "r0" else text


def _text(value: Any, leaves: list[Any]) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {_text(item, leaves)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(item, leaves) for item in value) + "]"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_text(item, leaves)}, " for item in value) + ")"
    if parts := _of_object(value):
        return _text(tuple(parts), leaves)
    leaves.append(value)
    return f"r{len(leaves) - 1}"


def _of_object(value: Any) -> list[Any]:
    """The tensors of an object that is none itself."""
    import torch

    from ..processes.objects import tensors_in

    return [] if isinstance(value, torch.Tensor) else tensors_in(value)


def _key(key: Any) -> str:
    if not isinstance(key, str | int | float | bool | None):
        raise ProblemError(f"the reference returns a dictionary with the key {key!r}; use strings as keys")
    return repr(key)
