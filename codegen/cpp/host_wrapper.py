"""The Python side of a candidate: reads sizes, allocates outputs, calls the C++ functions and PyTorch in order."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ...hardware.machine.work import refs
from ...schemas import Graph, Node, Ref, TensorMeta
from ..ir.loops import Kernel, SpecialKernel
from ..lowering.call_text import argument, call, ending, pyname, unbacked
from ..lowering.channels_last import library_call, result_last
from ..lowering.normal import SEGMENT_OF
from ..lowering.part_writes import WRITTEN
from ..lowering.plan import Plan
from ..lowering.pointwise import base_name
from ..lowering.result_strides import results_stored
from ..lowering.views import VIEWS, dims_of
from .kept_memory import is_mapped
from .source import Function, Library

MANY_VALUES = 16
"""Functions of more tensors are written to be short: time goes elsewhere."""
_TRIVIAL = re.compile(r"!=|>= -?[012]$|> -?[01]$")


class HostWrapper:
    """Statements of the candidate's function, in order of execution."""

    def __init__(self, plan: Plan, library: Library) -> None:
        self.plan = plan
        self.library = library
        self.lines: list[str] = []
        self.present = {n.name for n in plan.graph.nodes if n.op in ("input", "param", "constant")}
        self.contiguous: dict[str, str] = {}
        self.symbols = set(plan.graph.symbols)
        self.overwritten: set[str] = set()
        """Values whose memory took a kernel's result."""
        self.fallback = ""
        self.results = results_stored(plan.nodes)
        self.mapped = 0
        """Tensors so large that memory is kept for them."""

    def head(self, tensors: list[str]) -> list[str]:
        """Statements before everything else; ``tensors`` are the arguments and parameters."""
        return []

    def body(self, fallback: str) -> list[str]:
        """From sizes to the ``return``.

        Where a kernel meets an index out of range, ``fallback`` calls plain ATen, whose errors name it.
        """
        self.fallback = fallback
        for step in self._steps():
            if isinstance(step, Node):
                self._extern(step)
            elif isinstance(step, SpecialKernel) and step.kind == "compact":
                self._compact(step)
            else:
                self._kernel(step)
        last = ending(self.plan.graph, self._tensor, self.overwritten)
        return [*self.lines, *last]

    def _steps(self) -> Iterator["Node | Kernel | SpecialKernel"]:
        ranks = sorted({self.plan.rank[n.name] for n in self.plan.externs} | {k.rank for k in self.plan.kernels})
        for rank in ranks:
            yield from (n for n in self.plan.externs if self.plan.rank[n.name] == rank)
            yield from (k for k in self.plan.kernels if k.rank == rank)

    def _tensor(self, name: str) -> str:
        """A value as PyTorch is to see it; views of what is in memory are made when they are needed."""
        if name not in self.present:
            node = self.plan.nodes[name]
            if base_name(node.target) not in VIEWS and node.target != "operator.getitem":
                raise AssertionError(f"{name} was not computed")
            self.lines.append(f"{pyname(name)} = {call(node, self._tensor)}")
            self.present.add(name)
        return pyname(name)

    def _extern(self, node: Node) -> None:
        text = self._library_call(node)
        if node.target == WRITTEN:
            self.lines.append(text)
            text = self._tensor(next(refs(node.args)))
        self.lines.append(f"{node.expr or pyname(node.name)} = {text}")
        self.lines += unbacked(node, self.symbols)
        self.present.add(node.name)

    def _library_call(self, node: Node) -> str:
        return f"{call(library_call(node), self._tensor)}{result_last(node)}"

    def _pointer(self, name: str) -> str:
        """Address of a value's contiguous elements."""
        if name not in self.contiguous:
            node = self.plan.nodes[name]
            text = self._tensor(name)
            if self.plan.kernel_of(name) is not None or node.op == "constant":
                self.contiguous[name] = text
            else:
                self.contiguous[name] = f"{text}_c"
                self.lines.append(f"{text}_c = {text}.contiguous()")
        return f"{self.contiguous[name]}.data_ptr()"

    def _allocate(self, name: str) -> None:
        meta, result = self.plan.nodes[name].values[0], self.results.get(name)
        if result is not None and not is_mapped(meta):
            self._allocate_result(name, result)
            return
        self.lines.append(f"{pyname(name)} = {self._empty(meta, _tuple(meta.shape))}")
        self.present.add(name)

    def _allocate_result(self, name: str, result: Node) -> None:
        """The result is no view: nobody could write into one that was made without gradients, once they are on."""
        meta = result.values[0]
        empty = self._empty(meta, f"{_tuple(meta.shape)}, {_tuple(meta.strides)}", "empty_strided")
        dims = dims_of(result.args[1], len(meta.shape))
        order = tuple(map(dims.index, range(len(dims))))
        self.lines += [f"{pyname(result.name)} = {empty}", f"{pyname(name)} = {pyname(result.name)}.permute({order})"]
        self.present |= {name, result.name}

    def _empty(self, meta: TensorMeta, shape: str, make: str = "empty") -> str:
        """Text that makes a tensor of such a ``shape``, by ``make`` of PyTorch's functions."""
        if is_mapped(meta):
            self.mapped += 1
            return f"_empty({shape}, torch.{meta.dtype})"
        return f"torch.{make}({shape}, dtype=torch.{meta.dtype})"

    def _overwrite(self, name: str, source: str) -> None:
        """The result takes the memory of an operator's result, which nobody reads afterwards."""
        self._pointer(source)
        self.lines.append(f"{pyname(name)} = {self.contiguous[source]}")
        self.overwritten.add(source)
        self.present.add(name)

    def _arguments(self, function: Function) -> str:
        parts = [self._pointer(name) for name in function.inputs]
        parts += [f"{pyname(name)}.data_ptr()" for name in function.outputs]
        if function.chunked:
            parts += ["starts.data_ptr()", "chunks"]
        return ", ".join([*parts, *function.sizes, *(f"float({text})" for text in function.floats)])

    def _call(self, function: Function) -> None:
        text = f"_{function.name}({self._arguments(function)})"
        if function.checked:
            self.lines += [f"if {text}:", self.fallback]
        else:
            self.lines.append(text)

    def _kernel(self, kernel: "Kernel | SpecialKernel") -> None:
        (function,) = self.library.functions[kernel.name]
        for name in function.outputs:
            if name in function.in_place:
                self._overwrite(name, function.in_place[name])
            else:
                self._allocate(name)
        self._call(function)
        if isinstance(kernel, SpecialKernel) and kernel.kind == "offsets":
            self._segment_total(kernel)

    def _segment_total(self, kernel: SpecialKernel) -> None:
        """The lengths must add up to the size that the graph expects of the ragged dimension."""
        for node in self.plan.graph.nodes:
            if node.target != SEGMENT_OF or node.args[0] != Ref(name=kernel.buffer.name):
                continue
            size = str(node.values[0].shape[0])
            total = f"int({pyname(kernel.buffer.name)}[-1])"
            if re.fullmatch(r"u\d+", size) and size not in self.symbols:
                self.symbols.add(size)
                self.lines.append(f"{size} = {total}")
            else:
                self.lines += [
                    f"if {total} != {size}:",
                    '    raise ValueError("lengths do not add up to the elements")',
                ]

    def _compact(self, kernel: SpecialKernel) -> None:
        count, fill = self.library.functions[kernel.name]
        name = kernel.buffer.name
        size = str(self.plan.nodes[name].values[0].shape[0])
        self.lines.append("chunks = 4 * torch.get_num_threads()")
        self.lines.append("starts = torch.empty((chunks,), dtype=torch.int64)")
        fresh = re.fullmatch(r"u\d+", size) and size not in self.symbols
        target = size if fresh else "kept"
        self.symbols.add(size)
        self.lines.append(f"{target} = _{count.name}({self._arguments(count)})")
        if count.checked:
            self.lines += [f"if {target} < 0:", self.fallback]
        if not fresh:
            self.lines += [f"if kept != {size}:", '    raise ValueError("masks keep different numbers of elements")']
        self._allocate(name)
        self._call(fill)


def _tuple(sizes: Sequence[int | str]) -> str:
    return f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"


def guard(graph: Graph, params: bool, place: str = "is_cpu") -> list[str]:
    """Conditions on dtypes, dimensions, places and numbers under which the generated code is right."""
    conditions = []
    for node in graph.nodes:
        if node.op == "input" and node.values:
            meta, name = node.values[0], pyname(node.name)
            conditions.append(
                f"{name}.dtype is torch.{meta.dtype} and {name}.ndim == {len(meta.shape)} and {name}.{place}"
            )
        elif node.op == "input" and node.expr is None and not node.target:
            conditions.append(f"{pyname(node.name)} == {argument(node.literal, pyname)}")
        elif node.op == "param" and params:
            conditions.append(f"{pyname(node.name)}.dtype is torch.{node.values[0].dtype}")
    return conditions


def size_conditions(graph: Graph) -> list[str]:
    """Equations between the inputs' sizes that the generated code relies on."""
    read = {(source.input, source.dim) for source in graph.symbols.values()}
    conditions = []
    for node in graph.nodes:
        if node.op != "input" or not node.values:
            continue
        for dim, size in enumerate(node.values[0].shape):
            if (node.name, dim) not in read:
                conditions.append(f"{pyname(node.name)}.shape[{dim}] == {size}")
    conditions += [f"{name} != 0" for name in graph.symbols]
    nodes = {node.name: node for node in graph.nodes}
    for node in graph.nodes:
        if node.target == "aten.topk.default" and isinstance(source := node.args[0], Ref):
            last = node.args[2] if len(node.args) > 2 else -1
            size = nodes[source.name].values[0].shape[last] if isinstance(last, int) else ""
            conditions += [f"{size} >= {argument(node.args[1], pyname)}"] if isinstance(size, str) and size else []
    return conditions


def extra_guards(graph: Graph) -> list[str]:
    """Guards of the capture that say more than that sizes are not 0 or 1."""
    symbols = set(graph.symbols)
    extra = [g for g in graph.guards if not _TRIVIAL.search(g) and set(re.findall(r"\b[su]\d+\b", g)) <= symbols]
    return strongest(extra)


def strongest(conditions: Iterable[str]) -> list[str]:
    """Conditions without those that another one implies: a size is above many numbers if it is above the largest."""
    kept: dict[str, str] = {}
    for condition in conditions:
        bound = re.fullmatch(r"([\w.\[\]]+ >=? )(\d+)", condition)
        key = bound[1] if bound else condition
        if key not in kept or (bound and int(bound[2]) > int(kept[key][len(key) :])):
            kept[key] = condition
    return list(kept.values())
