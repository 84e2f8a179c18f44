"""Builds a Triton candidate file from a config (values of the tunables) and a captured graph."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...schemas import Graph, Node, ProblemFacts
from ..cpp.candidate import PREFIXES, constants, passes_of
from ..cpp.entry_points import Pass, entry_points
from ..ir.common_subexpressions import name_repeated
from ..ir.error_bounds import NO_BOUNDS, ErrorBounds
from ..ir.tunables import SHIFTED_ERROR
from ..lowering.anchors import is_special
from ..lowering.channels_last import library_call
from ..lowering.coverage import elsewhere
from ..lowering.library_convolutions import CONVOLUTION_LAST, TF32_PERMITTED, TUNED
from ..lowering.normal import RUNNING_PRODUCT, RUNNING_SUM, normalise
from ..lowering.plan import Plan
from ..lowering.recurrences import RECURRENCE
from ..lowering.regions import Fusion, partition
from ..lowering.result_strides import with_strides
from ..lowering.summary import docstring
from .host_wrapper import TritonHostWrapper
from .launch import HELPERS
from .launch_table import KIND, MOST_LISTED, LaunchTable, launches_literal
from .library_attention import library_attention
from .products import is_product
from .recurrent_layers import RECURRENT
from .rewrites import exact_convolutions, on_gpu
from .shared import share_repeated
from .source import TEMPLATES, TritonLibrary, triton_library
from .tunables import RECURRENT_BOUND, GpuSettings

_SCANS = (RUNNING_SUM, RUNNING_PRODUCT, RECURRENCE)


@dataclass(frozen=True)
class TritonCandidate:
    """A generated file and what it was made from."""

    source: str
    plans: tuple[Plan, ...]
    """Of the forward pass, and of the backward pass if the problem asks for it."""
    libraries: tuple[TritonLibrary, ...]
    """Of each plan."""


def gpu_plan(graph: Graph, settings: GpuSettings, prefix: str = "", bounds: ErrorBounds = NO_BOUNDS) -> Plan:
    """Partition ``graph`` as the settings say; the kernels' names begin with ``prefix``.

    Where ``bounds`` differ by result, what a more exact one is computed from keeps the reference's precision. So do
    recurrent layers where they have to be as exact as fp32 is.
    """
    by_value = bounds.by_value(graph)
    layers = {node.name for node in graph.nodes if node.target in RECURRENT}
    exact = {name for name in layers if by_value.get(name, bounds.least) < RECURRENT_BOUND}
    exact |= set() if bounds.tf32_convolutions else exact_convolutions(graph, by_value)
    exact_variances = {name for name, bound in by_value.items() if bound < SHIFTED_ERROR}
    fusion = Fusion(
        reductions=settings.fusion != "split",
        outer=settings.fusion == "all",
        stores=settings.fusion != "split",
        keep_shared=settings.keep_shared,
        store_read_again=True,
    )
    for loops in (True, False):
        normal = normalise(with_strides(graph), settings.variance, ragged=False, loops=loops, exact=exact_variances)
        normal = on_gpu(normal, settings, exact)
        nodes = {node.name: node for node in normal.nodes}
        plan = partition(normal, fusion, [n.name for n in normal.nodes if _is_left(n, nodes)], prefix)
        if not any(node.target == RECURRENCE for node in plan.externs):
            break
    return plan


def _is_left(node: Node, nodes: dict[str, Node]) -> bool:
    """What has no kernel here: compactions, whose size the host must know."""
    return node.op == "call" and is_special(node, nodes) and node.target not in _SCANS


def has_kernels(plan: Plan) -> bool:
    """Whether anything is other than PyTorch would do it: generated, or a convolution with a measured algorithm."""
    ours = any(is_product(n) or n.target in TEMPLATES or n.target in (TUNED, CONVOLUTION_LAST) for n in plan.externs)
    return bool(plan.kernels) or ours


def generate_triton(facts: ProblemFacts, graph: Graph, settings: GpuSettings) -> TritonCandidate:
    """The candidate file for ``graph`` with ``settings``."""
    graphs = passes_of(facts, graph)
    bounds = ErrorBounds.of_problem(facts)
    plans = tuple(gpu_plan(pass_graph, settings, PREFIXES[name], bounds) for name, pass_graph in graphs.items())
    libraries = share_repeated([triton_library(plan, settings, facts.shapes[1:]) for plan in plans])
    written = [
        _Written(name, *members)
        for name, members in zip(graphs, zip(graphs.values(), plans, libraries, strict=True), strict=True)
    ]
    most = MOST_LISTED // len(written)
    tables = [
        LaunchTable(pass_.library.everything(), pass_.graph, facts.shapes[1:], pass_.suffix, most) for pass_ in written
    ]
    conditions = [[*pass_.library.conditions, *pass_.more] for pass_ in written]
    others = [library_attention(other) for other in elsewhere(facts, graph)] if len(graphs) == 1 else []
    passes = [
        Pass(
            library_attention(pass_.graph),
            TritonHostWrapper(pass_.plan, pass_.library, pass_.suffix),
            pass_.name,
            "device == device",
            [table.condition()],
            others,
        )
        for pass_, table in zip(written, tables, strict=True)
    ]
    helpers = dict.fromkeys(part for library in libraries for part in library.prelude.split("\n\n\n") if part)
    parts = [
        f'"""{_docstring(written)}"""',
        "",
        "import functools",
        "import math  # noqa: F401",
        "",
        "import torch",
        "import triton",
        "import triton.language as tl",
        "from triton.language.extra import libdevice",
        "",
        launches_literal(tables),
        "",
        HELPERS,
        "",
        "",
        *(line for helper in helpers for line in (helper, "", "")),
        *((TF32_PERMITTED, "", "") if any(_asks_for_tf32(plan) for plan in plans) else ()),
        *(line for text in _texts(libraries) for line in (name_repeated(text), "", "")),
        KIND,
        "",
        "",
        *(line for table, more in zip(tables, conditions, strict=True) for line in (table.functions(more), "", "")),
        *constants([*graphs.values(), *others]),
        "",
        *entry_points(facts, passes),
    ]
    return TritonCandidate("\n".join(parts) + "\n", plans, libraries)


@dataclass(frozen=True)
class _Written:
    name: str
    graph: Graph
    plan: Plan
    library: TritonLibrary

    @property
    def suffix(self) -> str:
        return "" if self.name == "kernel" else f"_{self.name}"

    @property
    def more(self) -> list[str]:
        """Guards that a rewrite of the graph asks for."""
        return [guard for guard in self.plan.graph.guards if guard not in self.graph.guards]

    @property
    def left(self) -> list[str]:
        """Operators left to PyTorch."""
        gone = {*self.library.fused, *self.library.replaced}
        externs = [n for n in self.plan.externs if n.name not in gone and n.target != "operator.getitem"]
        return [library_call(node).target for node in externs]


def _texts(libraries: Sequence[TritonLibrary]) -> list[str]:
    """Of the functions, each once: kernels that repeat each other share one."""
    return list(dict.fromkeys(kernel.text for library in libraries for kernel in library.everything()))


def _asks_for_tf32(plan: Plan) -> bool:
    return any(node.target in (TUNED, CONVOLUTION_LAST) for node in plan.externs)


def _docstring(written: Sequence[_Written]) -> str:
    kernels = len(_texts([pass_.library for pass_ in written]))
    return docstring(kernels, "Triton", (target for pass_ in written for target in pass_.left), passes=len(written))
