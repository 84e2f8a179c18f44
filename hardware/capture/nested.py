"""Inputs that hold tensors: tuples, lists, dictionaries and objects are traced as the tensors in them."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from ...schemas import Graph, Node

NESTED = "nested"
"""Target of an input that holds tensors; behind it stands an input for each, whose target says where it is."""
OBJECT = "object"
"""Target of an input that is no tensor, number or string, and holds none."""


@dataclass(frozen=True)
class Leaf:
    """A tensor inside an input."""

    holder: int
    """Which input."""
    path: str
    """Where it is, as Python text over the input's name."""
    value: Any


@dataclass(frozen=True)
class Inputs:
    """The inputs of a reference, every tensor an input of its own."""

    given: Sequence[Any]
    labels: Sequence[str]
    leaves: Sequence[Leaf]

    @property
    def flat(self) -> list[Any]:
        """What is traced: inputs that hold no tensors as they are, then the tensors in the others."""
        holders = self._holders
        return [
            *(v for place, v in enumerate(self.given) if place not in holders),
            *(leaf.value for leaf in self.leaves),
        ]

    @property
    def names(self) -> list[str]:
        """Of what is traced; those of leaves are valid identifiers that no input has."""
        holders = self._holders
        names = [label for place, label in enumerate(self.labels) if place not in holders]
        for leaf in self.leaves:
            count = sum(name.startswith(f"{self.labels[leaf.holder]}_") for name in names)
            name = f"{self.labels[leaf.holder]}_{count}"
            while name in names or name in self.labels:
                name += "_"
            names.append(name)
        return names

    def call(self, call: Callable[[Any, list[Any]], Any]) -> Callable[[Any, list[Any]], Any]:
        """``call`` on flat inputs, put together again."""
        if not self.leaves:
            return call

        def call_flat(target: Any, values: list[Any]) -> Any:
            return call(target, self.together(values))

        return call_flat

    def together(self, values: Sequence[Any]) -> list[Any]:
        """The inputs as they were given, with other tensors: ``values`` are like :attr:`flat`."""
        holders, rest = self._holders, iter(values)
        plain = [next(rest) for place in range(len(self.given)) if place not in holders]
        # Copying asks this for every object that it meets, and takes what stands here for its copy.
        changed = {id(leaf.value): value for leaf, value in zip(self.leaves, rest, strict=True)}
        remaining = iter(plain)
        return [
            copy.deepcopy(value, dict(changed)) if place in holders else next(remaining)
            for place, value in enumerate(self.given)
        ]

    def graph(self, graph: Graph) -> Graph:
        """``graph``, with the inputs that hold tensors in their places."""
        if not self.leaves:
            return graph
        nodes = {node.name: node for node in graph.nodes}
        paths = dict(zip(self.names[len(self.given) - len(self._holders) :], self.leaves, strict=True))
        arguments = [
            nodes.get(label, Node(name=label, op="input", target=NESTED, args=tuple(structure(value, label))))
            for value, label in zip(self.given, self.labels, strict=True)
        ]
        leaves = [structs.replace(nodes[name], target=leaf.path) for name, leaf in paths.items()]
        others = [node for node in graph.nodes if node.op != "input"]
        return structs.replace(graph, nodes=(*arguments, *leaves, *others))

    @property
    def structure(self) -> list[str]:
        """What holds of the containers of all inputs that hold tensors, as :func:`structure` says it."""
        return [
            condition
            for place in sorted(self._holders)
            for condition in structure(self.given[place], self.labels[place])
        ]

    @property
    def _holders(self) -> set[int]:
        return {leaf.holder for leaf in self.leaves}


def inputs_of(given: Sequence[Any], labels: Sequence[str]) -> Inputs:
    """``given`` with the tensors inside them; a tensor that is there twice is one."""
    leaves: dict[int, Leaf] = {}
    for place, (value, label) in enumerate(zip(given, labels, strict=True)):
        if not _is_tensor(value):
            for path, tensor in _tensors(value, label):
                leaves.setdefault(id(tensor), Leaf(place, path, tensor))
    return Inputs(given, labels, list(leaves.values()))


def _tensors(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if _is_tensor(value):
        yield path, value
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _tensors(item, f"{path}[{place}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(item, f"{path}[{key!r}]") if isinstance(key, str | int) else ()
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        for name, item in vars(value).items():
            yield from _tensors(item, f"{path}.{name}")


def structure(value: Any, path: str) -> Iterator[str]:
    """How many items the lists and tuples in ``value`` have, and which keys the dictionaries, where these hold tensors:
    conditions, as Python text over the input's name. With others there are other tensors."""
    if not isinstance(value, list | tuple | dict) or next(_tensors(value, path), None) is None:
        return
    if isinstance(value, dict):
        keys = [key for key in value if isinstance(key, str | int)]
        yield f"list({path}) == {keys!r}"
        inner = [(value[key], f"{path}[{key!r}]") for key in keys]
    else:
        yield f"len({path}) == {len(value)}"
        inner = [(item, f"{path}[{place}]") for place, item in enumerate(value)]
    for item, place_of in inner:
        yield from structure(item, place_of)


def structure_of(graph: Graph) -> list[str]:
    """That of the inputs that a graph was captured with; graphs of older events do not say it."""
    return [str(condition) for node in graph.nodes if node.target == NESTED for condition in node.args]


def is_inner(node: Node) -> bool:
    """Whether it is a tensor inside an input, and no argument of the reference."""
    return node.op == "input" and node.target not in ("", NESTED, OBJECT)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
