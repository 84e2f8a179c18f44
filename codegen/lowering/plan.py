"""The plan of a graph: its kernels and PyTorch calls in order, and which of them reads which value."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ...hardware.machine.work import operands, refs
from ...schemas import Graph, Node
from ..ir.loops import Kernel, SpecialKernel, buffers_read
from ..ir.scalar import Scalar, walk_all

AnyKernel = Kernel | SpecialKernel


@dataclass
class Plan:
    """What runs. It is complete when it is made: what is asked of all kernels is looked up once."""

    graph: Graph
    nodes: dict[str, Node]
    externs: list[Node]
    """Operators left to PyTorch, in the graph's order."""
    kernels: list[AnyKernel]
    """In order of execution."""
    rank: dict[str, int]
    """Operators of PyTorch that a node needs first."""
    live: set[str] = field(default_factory=set)

    def kernel_of(self, name: str) -> AnyKernel | None:
        """The kernel that stores node ``name``."""
        return self._owners.get(name)

    def is_extern(self, node: Node) -> bool:
        """Whether the node is left to PyTorch."""
        return node.name in self._extern_names

    def base_of(self, name: str) -> str:
        """The node whose memory ``name`` shows, as far back as its arguments lead without a computation."""
        node = self.nodes[name]
        while node.op == "call" and self.kernel_of(name) is None and not self.is_extern(node):
            inner = next(refs(node.args), None)
            if inner is None:
                break
            name, node = inner, self.nodes[inner]
        return name

    def readers(self, name: str) -> list[AnyKernel]:
        """Kernels that read buffer ``name``, in order of execution."""
        return self._readers.get(name, [])

    def is_only_user(self, kernel: AnyKernel, source: str) -> bool:
        """Whether nothing but ``kernel`` reads ``source``: no operator, no result of the graph, no other kernel."""
        return source not in self._shown_outside and all(reader is kernel for reader in self.readers(source))

    @cached_property
    def returned(self) -> set[str]:
        """The nodes whose memory the graph's results show."""
        return {self.base_of(name) for name in refs(self.graph.nodes[-1].args)}

    @cached_property
    def outside_readers(self) -> dict[str, list[str]]:
        """By node, the operators of PyTorch that read it or a view of it, once for each time; the output as well."""
        readers: dict[str, list[str]] = defaultdict(list)
        for node in (*self.externs, self.graph.nodes[-1]):
            for name in operands(node):
                for shown in {name, self.base_of(name)}:
                    readers[shown].append(node.name)
        return dict(readers)

    @cached_property
    def _extern_names(self) -> set[str]:
        return {node.name for node in self.externs}

    @cached_property
    def _owners(self) -> dict[str, AnyKernel]:
        owners: dict[str, AnyKernel] = {}
        for kernel in self.kernels:
            names = kernel.stores if isinstance(kernel, Kernel) else [buffer.name for buffer in kernel.buffers]
            for name in names:
                owners.setdefault(name, kernel)
        return owners

    @cached_property
    def _readers(self) -> dict[str, list[AnyKernel]]:
        readers: dict[str, list[AnyKernel]] = defaultdict(list)
        for kernel in self.kernels:
            for name in buffers_read(kernel.roots()):
                readers[name].append(kernel)
        return dict(readers)

    @cached_property
    def _shown_outside(self) -> set[str]:
        """Nodes whose memory operators of PyTorch, results, or what is written back show."""
        output = self.graph.nodes[-1]
        names = [name for name in refs(output.args) if name not in output.kwargs]
        names += refs(output.kwargs.values())
        names += [name for node in self.externs for name in operands(node)]
        return {self.base_of(name) for name in names}


def operators_in(kernel: AnyKernel, roots: Iterable[Scalar], nodes: Mapping[str, Node]) -> str:
    """The graph's operators that a kernel implements, as its function's comment says them."""
    names: dict[str, None] = {}
    for value in walk_all(roots):
        names.update(dict.fromkeys(value.label))
    names.update(dict.fromkeys(kernel.nodes))
    targets = [nodes[n].target for n in names if n in nodes and nodes[n].op == "call"]
    return ", ".join(dict.fromkeys(target.removesuffix(".default") for target in targets)) or "copy"
