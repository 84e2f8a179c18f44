"""Recurrent layers as one node of the graph, divided among programs so that their weights stay on the chip.

Products with arguments of the operator, which may be of any size, are left to PyTorch in full precision, as in the
library: of the inputs for all steps at once, of the first states. The kernel multiplies states alone.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from msgspec import structs

from ...hardware.machine.work import refs
from ...schemas import Graph, Items, Node, Ref, TensorMeta
from ..lowering.calls import call, in_order
from .launch import BYTES
from .prepare import power
from .tunables import GpuSettings

LAYERS = "ks.recurrent_layers"
"""Some layers of ``aten.lstm.input``, ``aten.gru.input`` and the like: the last one's states of all steps.

Its arguments are products of the inputs with the first layer's weights, one for each direction; products of the first
states of each layer and direction; the first states, which like their products are left out where they are zero; and
for each, the weights of the state, its bias, the weights of the layer below, its bias."""
LAST_STATES = "ks.last_states"
"""What :data:`LAYERS` leaves: the node, and which of its results."""
RECURRENT = {
    "aten.lstm.input": "lstm",
    "aten.gru.input": "gru",
    "aten.rnn_tanh.input": "tanh",
    "aten.rnn_relu.input": "relu",
}
"""The operators, and what the kernel calls their cells."""

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
SUMS = {"lstm": 4, "gru": 4, "tanh": 1, "relu": 1}
"""Of a unit: GRU scales what comes of its state before it adds what comes of its input."""
_MOST_ROWS = 64
"""Largest batch: every program multiplies all of it."""
_LONGEST = {"float32": 256, "bfloat16": 512, "float16": 512}
"""Terms of a sum that are read at once: each warp has all of them in registers."""
_COLUMNS = (64, 32, 16)
"""Sums of a program for every sequence."""
WIDE, NARROW = 16, 8
"""Columns of a warp: of the first a thread has two pairs that lie 8 apart, of the others one pair."""
_MOST_REGISTERS = 128
"""Of a thread, for weights."""
_BESIDE = 4 << 10
"""Bytes of shared memory that a program needs beside what it multiplies."""


def fuse_recurrent_layers(graph: Graph, settings: GpuSettings, exact: Collection[str] = ()) -> Graph:
    """The graph with recurrent layers that fit the device as :data:`LAYERS`, but for those that are to be ``exact``."""
    nodes = {node.name: node for node in graph.nodes}
    new_nodes: list[Node] = []
    gone: set[str] = set()
    for node in graph.nodes:
        stack = None if node.name in exact else _Stack.of(node, nodes, settings)
        if stack is None:
            new_nodes += [] if node.name in gone else [node]
            continue
        parts = [n for n in graph.nodes if n.target == "operator.getitem" and n.args[0] == Ref(name=node.name)]
        new_nodes += stack.written({int(part.args[1]): part.name for part in parts})  # type: ignore[arg-type]
        gone |= {part.name for part in parts}
    return structs.replace(graph, nodes=tuple(new_nodes))


@dataclass(frozen=True)
class _Cut:
    units: int
    """Of a layer, for each program."""
    layers: int
    """Of a launch."""


@dataclass(frozen=True)
class _Stack:
    """What the operator is given."""

    node: Node
    settings: GpuSettings
    cell: str
    input: Node
    states: list[Node]
    """The first ones: of a cell as well where it has one."""
    weights: list[list[Node]]
    """Of each layer and direction: of the input, of the state, and their biases, if there are any."""
    layers: int
    directions: int
    is_batch_first: bool

    @classmethod
    def of(cls, node: Node, nodes: dict[str, Node], settings: GpuSettings) -> "_Stack | None":
        """The operator's; None where ``node`` is none, or does not fit the kernel or the device."""
        if node.op != "call" or node.target not in RECURRENT or node.kwargs or len(node.args) != 9:
            return None
        given, states, weights, has_biases, layers, _, _, bidirectional, batch_first = node.args
        each, directions = 4 if has_biases else 2, 2 if bidirectional else 1
        flat = [nodes[name] for name in refs([weights])]
        (source,) = (nodes[name] for name in refs([given]))
        stack = cls(
            node,
            settings,
            RECURRENT[node.target],
            source,
            [nodes[name] for name in refs([states])],
            [flat[start : start + each] for start in range(0, len(flat), each)],
            int(layers),  # type: ignore[arg-type]
            directions,
            bool(batch_first),
        )
        return stack if stack._fits() and stack.cut is not None else None

    def _fits(self) -> bool:
        metas = [
            self.node.values[0],
            *(n.values[0] for n in (self.input, *self.states, *chain.from_iterable(self.weights))),
        ]
        is_whole = len(self.weights) == self.layers * self.directions
        is_projected = len({state.values[0].example[-1:] for state in self.states}) > 1
        are_known = all(meta.example and isinstance(meta.shape[-1], int) for meta in metas)
        is_one_type = len({meta.dtype for meta in metas}) == 1 and self.dtype in BYTES
        return is_whole and not is_projected and are_known and is_one_type

    @property
    def dtype(self) -> str:
        """Of everything."""
        return self.node.values[0].dtype

    @property
    def hidden(self) -> int:
        """Units of a layer in one direction."""
        return int(self.states[0].values[0].shape[-1])

    @property
    def width(self) -> int:
        """Units of a layer."""
        return self.hidden * self.directions

    @property
    def rows(self) -> int:
        """Of a product: the batch, or more."""
        return rows_of(self.node.values[0].example[0 if self.is_batch_first else 1])

    @property
    def _starts_at_zero(self) -> bool:
        """As layers do that are given no first states."""
        return all(state.target == "aten.full.default" and state.args[1] == 0 for state in self.states)

    @cached_property
    def cut(self) -> _Cut | None:
        """The fewest launches; then the most units for each program, so that few wait for each other."""
        cuts = []
        for columns in _COLUMNS:
            units = columns // SUMS[self.cell]
            programs = -(-self.hidden // units) * self.directions
            layers = self.settings.multiprocessors // programs
            # A layer in two directions reads all of the layer below before its first step.
            layers = min(layers, self.layers if self.directions == 1 else 1)
            while layers and not has_room(self.hidden, self.dtype, columns, layers, self.rows, self.settings):
                layers = int(layers > 1)
            if layers:
                launches = -(-self.layers // layers)
                cuts.append((launches, -units, _Cut(units, -(-self.layers // launches))))
        return min(cuts, key=lambda cut: cut[:2])[2] if cuts else None

    def written(self, results: dict[int, str]) -> list[Node]:
        """The nodes that give the operator's ``results``: their names, by place."""
        assert self.cut is not None
        nodes: list[Node] = []
        source, last = self.input, {index: list[Node]() for index in results if index > 0}
        for first in range(0, self.layers, self.cut.layers):
            group = range(first, min(first + self.cut.layers, self.layers))
            products = list(self._products(group, source))
            nodes += products
            ahead = [Ref(name=n.name) for n in products if n.target == _LINEAR]
            layers = self._group(group, ahead, results.get(0, self.node.name))
            nodes.append(layers)
            for index, parts in last.items():
                part = self._last(layers, index, group, results[index])
                nodes.append(part)
                parts.append(part)
            source = layers
        for index, parts in last.items():
            if len(parts) > 1:
                args = (Items(items=tuple(Ref(name=part.name) for part in parts)), 0)
                nodes.append(call(results[index], "aten.cat.default", args, self.node.values[index]))
        return nodes

    def _products(self, group: range, source: Node) -> Iterator[Node]:
        """Of the inputs of all steps, and of each layer's first state."""
        name, lines = self.node.name, GATES[self.cell] * self.hidden
        for direction in range(self.directions):
            weights = self.weights[group.start * self.directions + direction]
            yield _linear(f"{name}_inputs{group.start}_{direction}", source, weights[0], weights[2:3], lines)
        of_states = range(group.start * self.directions, group.stop * self.directions)
        for which in () if self._starts_at_zero else of_states:
            weights, meta = self.weights[which], self.states[0].values[0]
            row = TensorMeta(shape=meta.shape[1:], dtype=meta.dtype, example=meta.example[1:])
            state = call(f"{name}_first{which}", "aten.select.int", (Ref(name=self.states[0].name), 0, which), row)
            yield state
            yield _linear(f"{name}_begin{which}", state, weights[1], weights[3:4], lines)

    def _group(self, group: range, ahead: list[Ref], name: str) -> Node:
        result, is_end = self.node.values[0], group.stop == self.layers
        if not is_end:
            name = f"{self.node.name}_below{group.stop}"
            order = (1, 0, 2) if self.is_batch_first else (0, 1, 2)
            result = in_order(result, order)
        which = range(group.start * self.directions, group.stop * self.directions)
        weights: list[Ref] = []
        for number in which:
            parts = self.weights[number]
            order_of = (1, 3) if number < which.start + self.directions else (1, 3, 0, 2)
            weights += [Ref(name=parts[place].name) for place in order_of if place < len(parts)]
        args = (
            Items(items=tuple(ahead)),
            Items(items=() if self._starts_at_zero else tuple(Ref(name=state.name) for state in self.states)),
            Items(items=tuple(weights)),
        )
        kwargs = {
            "cell": self.cell,
            "layers": len(group),
            "first": which.start,
            "directions": self.directions,
            "has_biases": len(self.weights[0]) > 2,
            "units": self.cut.units if self.cut else 0,
            "batch_first": self.is_batch_first and is_end,
            "inputs_batch_first": self.is_batch_first and group.start == 0,
        }
        return structs.replace(call(name, LAYERS, args, result), kwargs=kwargs)

    def _last(self, layers: Node, index: int, group: range, name: str) -> Node:
        meta, count = self.node.values[index], len(group) * self.directions
        part = TensorMeta(shape=(count, *meta.shape[1:]), dtype=meta.dtype, example=(count, *meta.example[1:]))
        name = name if len(group) == self.layers else f"{name}_{group.start}"
        return call(name, LAST_STATES, (Ref(name=layers.name), index), part)


_LINEAR = "aten.linear.default"


def _linear(name: str, source: Node, weight: Node, bias: Sequence[Node], lines: int) -> Node:
    meta = source.values[0]
    result = TensorMeta(shape=(*meta.shape[:-1], lines), dtype=meta.dtype, example=(*meta.example[:-1], lines))
    return call(name, _LINEAR, tuple(Ref(name=n.name) for n in (source, weight, *bias)), result)


def rows_of(batch: int) -> int:
    """Of a product: the batch, or more."""
    return max(16, power(batch))


def has_room(hidden: int, dtype: str, columns: int, layers: int, rows: int, settings: GpuSettings) -> bool:
    """Whether a program's weights fit its registers, and its shared memory with what they are multiplied by.

    Up to 32 rows they are in registers; Triton's products of 64 read them from shared memory.
    """
    terms, matrices = sum(pieces(hidden, dtype)), 2 if layers > 1 else 1
    size = terms * BYTES[dtype] * (columns * matrices + rows) + rows * columns * BYTES["float32"] + _BESIDE
    is_held = columns_of_a_warp(hidden, dtype, layers) > 0
    return is_held and rows <= _MOST_ROWS and size <= settings.shared_bytes


def columns_of_a_warp(hidden: int, dtype: str, layers: int) -> int:
    """As many as leave room for other things than weights in its registers; 0 where not even the fewest do."""
    of_a_column = sum(pieces(hidden, dtype)) * BYTES[dtype] * (2 if layers > 1 else 1) // (4 * 32)
    return next((columns for columns in (WIDE, NARROW) if of_a_column * columns <= _MOST_REGISTERS), 0)


def pieces(terms: int, dtype: str) -> list[int]:
    """Powers of two that a sum is cut into, which together are hardly more than its terms."""
    longest = _LONGEST[dtype]
    whole, rest = divmod(terms, longest)
    pieces = [longest] * whole
    half = power(rest) // 2
    if rest > half >= 2 * max(16, power(rest - half)):
        return [*pieces, half, max(16, power(rest - half))]
    return [*pieces, max(16, power(rest))] if rest else pieces
