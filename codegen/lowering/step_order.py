"""The order in which a step computes its values, so that new states overwrite old ones where possible."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..ir.build import Unsupported
from ..ir.loops import Part
from ..ir.poly import variable
from ..ir.scalar import Scalar, rewrite


def in_order(values: Sequence[Part]) -> tuple[list[Part], dict[str, str]]:
    """The values of a step in an order in which each finds what it reads, and the states that are copied behind it.

    A state ``next0`` becomes ``state0`` itself where nobody needs what that was before the step.

    Raises:
        Unsupported: values need each other.
    """
    by_name = {value.name: value for value in values}
    before = {value.name: {name for name in _read(value) if name in by_name} for value in values}
    following: dict[str, str] = {}
    for name in [name for name in by_name if name.startswith("next")]:
        old = name.replace("next", "state")
        readers = {value.name for value in values if old in _read(value)} - {name}
        tried = {**before, name: before[name] | readers}
        if _is_elsewhere(by_name[name], old) or _sorted(tried) is None:
            following[old] = name
        else:
            before = tried
    order = _sorted(before)
    if order is None:
        raise Unsupported("", "values of a step need each other")
    names = {name: name.replace("next", "state") for name in by_name if name.startswith("next")}
    names = {name: old for name, old in names.items() if old not in following}
    return [_renamed(by_name[name], names) for name in order], following


def _read(value: Part) -> set[str]:
    return {node.data for node in value.value.walk() if node.op == "local"}


def _is_elsewhere(value: Part, old: str) -> bool:
    """Whether a state reads what it was at another place."""
    reads = [node for node in value.value.walk() if node.op == "local" and node.data == old]
    own = tuple(map(variable, value.over))
    return any(node.polys[: len(own)] != own for node in reads)


def _sorted(before: Mapping[str, set[str]]) -> list[str] | None:
    """The names, each behind those that must come before it; None if there is no such order."""
    order: list[str] = []
    while len(order) < len(before):
        ready = [name for name, needed in before.items() if name not in order and needed <= set(order)]
        if not ready:
            return None
        order.append(ready[0])
    return order


def _renamed(value: Part, names: Mapping[str, str]) -> Part:
    def change(node: Scalar) -> Scalar | None:
        if node.op == "local" and node.data in names:
            return Scalar("local", node.dtype, polys=node.polys, data=names[node.data])
        return None

    return replace(value, name=names.get(value.name, value.name), value=rewrite(value.value, change))
