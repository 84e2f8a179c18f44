"""Which values of a graph must be stored: inputs, PyTorch's results, and what PyTorch, a search or the caller reads."""

import re
from collections.abc import Iterable, Iterator

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, Graph, Items, Node, Ref
from ..ir.build import SUPPORTED
from .attention import ATTENTION, is_few
from .lower import SEARCHES, is_lowerable
from .normal import RUNNING_PRODUCT, RUNNING_SUM, SEGMENT_OF, SEGMENT_OFFSETS
from .pointwise import base_name
from .read_again import read_again
from .recurrences import CARRIED, LAST, RECURRENCE, STEPS, recurrence_of
from .reductions import is_reduction
from .repeated import repeated
from .step_sums import STEP_SUM
from .sums_by_index import is_sum_by_index
from .views import VIEWS, expressions, shape_of, squeezed


def is_special(node: Node, nodes: dict[str, Node]) -> bool:
    """Whether the node is a scan, a recurrence, a sum by index, a compaction or the offsets of segments."""
    if node.target in (SEGMENT_OFFSETS, RUNNING_PRODUCT, RECURRENCE, STEPS, LAST, ATTENTION, RUNNING_SUM):
        return all(meta.dtype in SUPPORTED for meta in node.values) and bool(node.values[0].shape)
    return is_sum_by_index(node, nodes) or _is_compaction(node, nodes)


def _is_compaction(node: Node, nodes: dict[str, Node]) -> bool:
    if node.target != "aten.index.Tensor" or not isinstance(node.args[1], Items):
        return False
    items = node.args[1].items
    if len(items) != 1 or not isinstance(items[0], Ref) or node.values[0].dtype not in SUPPORTED:
        return False
    return nodes[items[0].name].values[0].dtype == "bool"


_LONGEST_CHAIN = 96
"""Operators in one expression: expressions are walked by recursion, and Python's ends at a thousand calls."""


_MOST_PARTS = 16
"""Parts of a concatenation in one expression. Beyond that many computed ones they are stored, and PyTorch puts them
together; a concatenation of concatenations with more is stored."""


def _is_storable(node: Node) -> bool:
    return node.op == "call" and len(node.values) == 1 and base_name(node.target) not in VIEWS


class Anchors:
    """Sorts the live nodes of a graph: those that are there before any kernel runs, and those that must be stored."""

    def __init__(self, graph: Graph, given_up: set[str], store_read_again: bool = False) -> None:
        self.graph = graph
        self.nodes = {node.name: node for node in graph.nodes}
        self.given_up = given_up
        self.numbers = {node.expr: node.name for node in graph.nodes if node.op == "call" and node.expr}
        """Calls that make a number of a tensor, by the symbol that they give a value."""
        self.sized = self._sized()
        """By size, the node whose result alone tells it."""
        self.live = self._live()
        self.leaves = {n.name for n in graph.nodes if self._is_leaf(n)}
        """Inputs, parameters, constants, and results of operators that are left to PyTorch."""
        self.cuts = read_again(graph, self.live, self.leaves) if store_read_again else set()
        """Values at which a chain of operators ends: too long for one expression, or read too often."""
        self.rank = self._ranks()
        """How many operators of PyTorch, and ends of chains, a node waits for."""

    def _is_leaf(self, node: Node) -> bool:
        """Whether the node's value is there before any kernel runs: an input, or an operator left to PyTorch."""
        if node.op in ("input", "param"):
            return True
        if node.op == "constant":
            return not (isinstance(node.literal, Items) and len(node.literal.items) == 1)
        if node.op != "call" or not node.values:
            return node.op == "call"
        if node.target in (CARRIED, STEP_SUM):
            return False
        if node.name in self.given_up or node.name in self.sized.values():
            return True
        if node.target == "operator.getitem" and isinstance(node.args[0], Ref):
            base = self.nodes[node.args[0].name]
            return base_name(base.target) not in VIEWS or base.name in self.given_up
        if base_name(node.target) == "cat" and self._computed_parts(node) > _MOST_PARTS:
            return True
        supported = is_lowerable(node) or is_reduction(node) or is_special(node, self.nodes)
        read = (meta for name in operands(node) for meta in self.nodes[name].values)
        return not supported or any(meta.dtype not in SUPPORTED for meta in (*node.values, *read))

    def _computed_parts(self, node: Node) -> int:
        """Parts that a kernel would compute anew for every element that lies in them."""
        count = 0
        for name in refs(node.args):
            part = self.nodes[name]
            while base_name(part.target) in VIEWS:
                part = self.nodes[next(refs(part.args))]
            count += part.op == "call" and is_lowerable(part)
        return count

    def _ranks(self) -> dict[str, int]:
        rank: dict[str, int] = {}
        depth: dict[str, int] = {}
        pieces: dict[str, int] = {}
        """Parts among which an expression of the node chooses."""
        for node in self.graph.nodes:
            read = self._read(node)
            before = max((rank[name] + (name in self.cuts) for name in read), default=0)
            rank[node.name] = before + (node.op == "call" and node.name in self.leaves)
            is_stored = node.name in self.leaves | self.cuts or is_reduction(node) or is_special(node, self.nodes)
            depth[node.name] = 0 if is_stored else 1 + max((depth[name] for name in read), default=0)
            parts = [1] if is_stored else [pieces[name] for name in read]
            joins = base_name(node.target) == "cat" and max(parts, default=1) > 1
            # Operands that choose do so at places of their own: each has its alternatives in the expression.
            chosen = parts if base_name(node.target) == "cat" else [count for count in parts if count > 1]
            pieces[node.name] = sum(chosen) or 1
            too_many = joins and pieces[node.name] > _MOST_PARTS
            if (depth[node.name] >= _LONGEST_CHAIN or too_many) and _is_storable(node):
                self.cuts.add(node.name)
                depth[node.name], pieces[node.name] = 0, 1
        return rank

    def needed(self, keep_shared: bool, store_repeated: bool) -> set[str]:
        """Nodes that must be in memory: read by PyTorch, searched in, returned, or too costly to compute at each use;
        views are taken off."""
        names: list[str] = []
        for node in self.graph.nodes:
            if node.name not in self.live:
                continue
            if node.op == "output" or (node.op == "call" and node.name in self.leaves):
                names += [self._viewed(name) for name in operands(node)]
            elif node.target == ATTENTION:
                query, *others = refs(node.args[:3])
                # Copies that only repeat or reorder keys, as those of grouped queries, are read where they come from.
                names += [self._viewed(query), *(self._viewed(n, is_few(self.nodes[query])) for n in others)]
            elif base_name(node.target) in SEARCHES:
                names += list(refs((node.args[1 if base_name(node.target) == "bucketize" else 0],)))
        names += [node.name for node in self.graph.nodes if node.name in self.cuts & self.live]
        if store_repeated:
            names += repeated(self.graph, self.live, self.leaves)
        if keep_shared:
            names += _shared(self.graph, self.live)
        return {name for name in names if name not in self.leaves} - self._carried()

    def _carried(self) -> set[str]:
        """What only a kernel of its own can compute, because it is made of what that kernel holds."""
        carried: set[str] = set()
        for node in self.graph.nodes:
            if node.target == STEPS:
                carried.update(recurrence_of(node).own)
            is_made = node.target not in (ATTENTION, STEPS, LAST) and not carried.isdisjoint(refs(node.args))
            if node.target == CARRIED or (node.op == "call" and is_made):
                carried.add(node.name)
        return carried

    def _read(self, node: Node) -> list[str]:
        """The nodes that ``node`` needs first: its tensors, and what makes numbers for it."""
        args = (*node.args, *node.kwargs.values())
        makers = self.numbers | self.sized
        return [*refs(args), *(makers[symbol] for symbol in _symbols(args) if symbol in makers)]

    def _sized(self) -> dict[str, str]:
        """By size that depends on data, the first node that has it.

        Not those with a kernel that knows the size itself, unless it is asked for by what the node has no part in.
        """
        symbols = {*self.graph.symbols, *self.numbers}
        sized: dict[str, str] = {}
        for node in self.graph.nodes:
            sizes = {size for meta in node.values for size in meta.shape if isinstance(size, str)}
            new = {size for size in sizes if re.fullmatch(r"u\d+", size)} - symbols
            symbols |= new
            is_known = node.target == SEGMENT_OF or (
                is_special(node, self.nodes) and not self._is_asked_for_elsewhere(new, node)
            )
            if new and not is_known:
                sized |= dict.fromkeys(new, node.name)
        return sized

    def _is_asked_for_elsewhere(self, symbols: set[str], maker: Node) -> bool:
        """Whether nodes name sizes of ``maker`` that are not made of it."""
        made = {maker.name}
        for node in self.graph.nodes:
            args = (*node.args, *node.kwargs.values())
            if not made.isdisjoint(refs(args)):
                made.add(node.name)
            elif not symbols.isdisjoint(_symbols(args)):
                return True
        return False

    def _live(self) -> set[str]:
        live: set[str] = set()
        stack = [self.graph.nodes[-1].name]
        while stack:
            name = stack.pop()
            if name not in live:
                live.add(name)
                stack.extend(self._read(self.nodes[name]))
        return live

    def _viewed(self, name: str, copies: bool = False) -> str:
        """The node whose memory a view shows; a view is made by PyTorch, for free. ``copies`` count as views."""
        node = self.nodes[name]
        shown = VIEWS | {"clone"} if copies else VIEWS
        while name not in self.leaves and (base_name(node.target) in shown or node.target == "operator.getitem"):
            if base_name(node.target) == "repeat" or node.op != "call":
                break
            name = next(refs(node.args))
            node = self.nodes[name]
        return name


def _shared(graph: Graph, live: set[str]) -> list[str]:
    """Pointwise values with several users."""
    users: dict[str, int] = {}
    for node in graph.nodes:
        if node.name in live:
            for name in set(refs(node.args)):
                users[name] = users.get(name, 0) + 1
    return [node.name for node in graph.nodes if users.get(node.name, 0) > 1 and _is_large_value(node)]


def _is_large_value(node: Node) -> bool:
    computed = node.op == "call" and bool(node.values) and node.target not in (SEGMENT_OF, "operator.getitem")
    return computed and base_name(node.target) not in VIEWS and len(squeezed(shape_of(node))) > 1


def _symbols(args: Iterable[Arg]) -> Iterator[str]:
    """Every symbol that arguments name."""
    for text in expressions(args):
        yield from re.findall(r"[a-z]+\d+", text)
