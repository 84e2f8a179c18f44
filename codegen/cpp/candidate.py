"""Builds a C++ candidate file from a config (values of the tunables) and a captured graph."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from ...hardware.languages.cpp import LOADER
from ...schemas import Graph, Items, ProblemFacts
from ..host.differentiable import flat
from ..ir.loops import AttentionKernel
from ..ir.tunables import Settings
from ..lowering.attention import ATTENTION, fuse_scored_attention, pays
from ..lowering.call_text import argument, pyname
from ..lowering.channels_last import channels_last, library_call
from ..lowering.coverage import elsewhere
from ..lowering.extremes import spell_extremes
from ..lowering.integer_products import with_library_products
from ..lowering.library_convolutions import followed_convolutions
from ..lowering.normal import normalise
from ..lowering.plan import Plan
from ..lowering.pointwise import ORDERED, UNORDERED
from ..lowering.pools_first import pools_first
from ..lowering.reassociation import reassociated
from ..lowering.recurrences import CARRIED, RECURRENCE, STEPS
from ..lowering.regions import Fusion, partition
from ..lowering.result_strides import with_strides
from ..lowering.summary import docstring
from . import kept_memory
from .divisions import unsafe_divisions
from .entry_points import Pass, entry_points, is_module
from .host_wrapper import HostWrapper
from .source import Function, Library, library
from .windows import spell_windows

PREFIXES = {"kernel": "", "backward": "backward_"}
"""What the names of a pass's kernels begin with."""


@dataclass(frozen=True)
class Candidate:
    """A generated file and what it was made from."""

    source: str
    plans: tuple[Plan, ...]
    """Of the forward pass, and of the backward pass if the problem asks for it."""
    library: Library


def plan_of(graph: Graph, settings: Settings, prefix: str = "") -> Plan:
    """Partition ``graph`` as the settings say; the kernels' names begin with ``prefix``."""
    fusion = Fusion(
        reductions=settings.fusion != "split",
        outer=settings.fusion == "all",
        stores=settings.fusion != "split",
        keep_shared=settings.keep_shared,
        columns=True,
        column_scans=True,
        store_repeated=True,
    )
    spelled = spell_windows(_with_better_products(spell_extremes(with_strides(graph)), settings), settings.windows)
    spelled = followed_convolutions(spelled)
    if settings.channels_last:
        spelled = channels_last(spelled)
    if settings.attention == "library":
        return _partitioned(spelled, settings, fusion, prefix)
    plan = _partitioned(fuse_scored_attention(spelled), settings, fusion, prefix)
    kernels = [kernel for kernel in plan.kernels if isinstance(kernel, AttentionKernel)]
    left = {name for k in kernels if settings.attention == "masked" and not pays(k, plan.nodes) for name in k.nodes}
    if any(node.target in (ATTENTION, CARRIED) for node in plan.externs):
        return _partitioned(spelled, settings, fusion, prefix)
    return _partitioned(fuse_scored_attention(spelled, left), settings, fusion, prefix) if left else plan


def _partitioned(graph: Graph, settings: Settings, fusion: Fusion, prefix: str) -> Plan:
    def planned(normal: Graph) -> Plan:
        return partition(normal, fusion, unsafe_divisions(normal), prefix)

    plan = planned(normalise(graph, settings.variance, on_processor=True, sums=True))
    if any(node.target == STEPS for node in plan.externs):
        plan = planned(normalise(graph, settings.variance, on_processor=True))
    if any(node.target in (RECURRENCE, ORDERED, UNORDERED) for node in plan.externs):
        plan = planned(normalise(graph, settings.variance, loops=False))
    return plan


def _with_better_products(graph: Graph, settings: Settings) -> Graph:
    if not settings.reassociate:
        return graph
    graph = with_library_products(pools_first(graph))
    return structs.replace(graph, nodes=tuple(reassociated(list(graph.nodes))))


def _conditions(graph: Graph, plan: Plan) -> list[str]:
    """What the plan needs of the sizes beyond the graph as captured."""
    return [guard for guard in plan.graph.guards if guard not in graph.guards]


def generate(facts: ProblemFacts, graph: Graph, settings: Settings) -> Candidate:
    """The candidate file for ``graph`` with ``settings``."""
    graphs = passes_of(facts, graph)
    plans = tuple(plan_of(pass_graph, settings, PREFIXES[name]) for name, pass_graph in graphs.items())
    printed = library(plans, settings)
    others = elsewhere(facts, graph) if len(graphs) == 1 else []
    passes = [
        Pass(pass_graph, HostWrapper(plan, printed), name, "is_cpu", _conditions(pass_graph, plan), elsewhere=others)
        for (name, pass_graph), plan in zip(graphs.items(), plans, strict=True)
    ]
    functions = entry_points(facts, passes)
    mapped = sum(pass_.host_wrapper.mapped for pass_ in passes)
    parts = [
        f'"""{_docstring(plans)}"""',
        "",
        "import functools",
        "import math  # noqa: F401",
        *(f"import {name}" for name in kept_memory.IMPORTS if mapped),
        "",
        "import torch",
        "",
        f"CPP_SOURCE = r'''\n{printed.source}'''",
        f"CPP_FLAGS = {flags(settings)!r}",
        "",
        LOADER,
        "",
        "_LIBRARY = _load()",
        *(line for function in printed.distinct() for line in _binding(function)),
        *constants([*graphs.values(), *others]),
        *(kept_memory.text(mapped) if mapped else ()),
        "",
        *functions,
    ]
    return Candidate("\n".join(parts) + "\n", plans, printed)


def flags(settings: Settings) -> list[str]:
    """Compiler flags beyond the base set."""
    options = []
    if settings.vector_bits:
        options.append(f"-mprefer-vector-width={settings.vector_bits}")
    if settings.vector_bits == 512:
        # GCC would clear accumulators with stores of half the width, whose loads wait until they are in the cache.
        options.append("-fno-tree-loop-distribute-patterns")
    if settings.unroll:
        options.append("-funroll-loops")
    return options


def passes_of(facts: ProblemFacts, graph: Graph) -> dict[str, Graph]:
    """The graphs that a candidate computes, by the name of its function for each."""
    if facts.backward_graph is None:
        return {"kernel": graph}
    return {"kernel": flat(graph) if is_module(facts, graph) else graph, "backward": facts.backward_graph}


def _docstring(plans: Sequence[Plan]) -> str:
    left = [node for plan in plans for node in plan.externs if node.target != "operator.getitem"]
    kernels = sum(len(plan.kernels) for plan in plans)
    return docstring(kernels, "C++", (library_call(node).target for node in left), passes=len(plans))


def _binding(function: Function) -> list[str]:
    pointers = len(function.inputs) + len(function.outputs) + function.chunked
    kinds = ["ctypes.c_void_p"] * pointers + ["ctypes.c_int64"] * (len(function.sizes) + function.chunked)
    kinds += ["ctypes.c_double"] * len(function.floats)
    name = f"_{function.name}"
    return [
        f"{name} = _LIBRARY.{function.name}",
        f"{name}.argtypes = [{', '.join(kinds)}]",
        f"{name}.restype = ctypes.c_int64",
    ]


def constants(graphs: Iterable[Graph]) -> list[str]:
    """Small tensors that the reference made for itself."""
    lines = []
    for node in (node for graph in graphs for node in graph.nodes):
        if node.op == "constant" and isinstance(node.literal, Items):
            meta = node.values[0]
            data = argument(node.literal, pyname)
            shape = tuple(meta.shape)
            lines.append(f"{pyname(node.name)} = torch.tensor({data}, dtype=torch.{meta.dtype}).reshape({shape})")
    return lines
