"""Writes ``kernel`` and ``ModelNew`` of a C++ candidate: they read inputs, refuse unfit ones, run the kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...hardware.capture.nested import is_inner, structure_of
from ...hardware.capture.sizes import conditions
from ...schemas import Graph, Node, ProblemFacts
from ..host.differentiable import differentiable_lines, forward_lines
from ..host.parameters import module_lines, reads
from ..ir.common_subexpressions import name_repeated_lines
from ..lowering.call_text import argument, program, pyname, sizes_from_inputs
from .host_wrapper import MANY_VALUES, HostWrapper, extra_guards, guard, size_conditions, strongest

_NOT_SUPPORTED = '''class NotSupported(NotImplementedError):
    """Inputs for which this file knows no answer; the reference does."""
'''


@dataclass(frozen=True)
class Pass:
    """One graph of a candidate, forward or backward, and what runs it."""

    graph: Graph
    """As captured."""
    host_wrapper: HostWrapper
    """Prints what runs the kernels."""
    name: str
    """Its function: ``kernel`` or ``backward``."""
    place: str
    """What must hold of every input's place: an attribute, or a comparison behind the input's name."""
    conditions: Sequence[str] = ()
    """On the sizes, beyond the graph's."""
    elsewhere: Sequence[Graph] = ()
    """The operator at sizes at which it is another one: no kernels, plain ATen calls."""

    @property
    def suffix(self) -> str:
        """Behind the names of its helper functions."""
        return "" if self.name == "kernel" else f"_{self.name}"

    @property
    def inputs(self) -> list[str]:
        """Names of the arguments."""
        return [node.name for node in self.graph.nodes if node.op == "input" and not is_inner(node)]

    @property
    def params(self) -> list[Node]:
        """Parameters and buffers that the graph uses."""
        return [node for node in self.graph.nodes if node.op == "param"]

    @property
    def values(self) -> list[str]:
        """Variables that hold the arguments, then the parameters."""
        return [*map(pyname, self.inputs), *(pyname(node.name) for node in self.params)]


def entry_points(facts: ProblemFacts, passes: Sequence[Pass]) -> list[str]:
    """The functions of a candidate, the forward pass first."""
    forward = passes[0]
    lines = [*_NOT_SUPPORTED.splitlines(), "", ""]
    for pass_ in passes:
        for place in range(len(pass_.elsewhere)):
            lines += [*_elsewhere(pass_, place), "", ""]
        lines += [*_plain(pass_, is_followed=len(passes) > 1), "", "", *_valid(pass_)]
    if not is_module(facts, forward.graph):
        functions = [
            [*_decorator(pass_), f"def {pass_.name}({', '.join(pass_.inputs)}):", *_body(pass_)] for pass_ in passes
        ]
        return [*lines, *_apart(functions)]
    if facts.graph is not None and len(passes) > 1:
        return [*lines, *_differentiable_module(facts, facts.graph, passes)]
    head = ["", "    @torch.no_grad()", f"    def forward({', '.join(['self', *forward.inputs])}):"]
    read, function = reads(facts, forward.params, [pyname(node.name) for node in forward.params])
    body = _indented([*_indented(read), *_body(forward)])
    return [*lines, *function, *module_lines(facts, forward.params, [*head, *body])]


def is_module(facts: ProblemFacts, graph: Graph) -> bool:
    """Whether the candidate is a ``ModelNew``."""
    return facts.is_module or bool(facts.parameters) or any(node.op == "param" for node in graph.nodes)


def _differentiable_module(facts: ProblemFacts, graph: Graph, passes: Sequence[Pass]) -> list[str]:
    forward, backward = passes
    lines = []
    for pass_, name in ((forward, "_kernels"), (backward, "_backward")):
        lines += ["@torch.no_grad()", f"def {name}({', '.join(pass_.values)}):", *_body(pass_), "", ""]
    read, function = reads(facts, forward.params, [pyname(node.name) for node in forward.params])
    body = _indented(_indented([*_aliases(forward), *read, *forward_lines(graph)]))
    head = ["", f"    def forward({', '.join(['self', *forward.inputs])}):"]
    differentiable = differentiable_lines(graph, backward.graph)
    return [*lines, *differentiable, *function, *module_lines(facts, forward.params, [*head, *body])]


def _apart(functions: list[list[str]]) -> list[str]:
    return functions[0] if len(functions) == 1 else [*functions[0], "", "", *_apart(functions[1:])]


def _decorator(pass_: Pass) -> list[str]:
    needed = pass_.host_wrapper.plan.externs or pass_.params or pass_.graph.nodes[-1].kwargs
    return ["@torch.no_grad()"] if needed else []


def _plain(pass_: Pass, is_followed: bool) -> list[str]:
    names = [*pass_.inputs, *(pyname(node.name) for node in pass_.params)]
    before = [*_aliases(pass_), *_led_elsewhere(pass_), *_kinds(pass_), *_refusals(pass_.graph)]
    # Gradients have no calls for other shapes of a problem: those that follow may be right there.
    before += [] if is_followed else _single_sizes(pass_.graph)
    return [
        *(["@torch.no_grad()"] if pass_.graph.nodes[-1].kwargs and not is_followed else []),
        f"def _aten{pass_.suffix}({', '.join(names)}):",
        '    """The captured operator as plain ATen calls."""',
        *_indented(name_repeated_lines([*before, *program(pass_.graph)])),
    ]


def _elsewhere(pass_: Pass, place: int) -> list[str]:
    graph = pass_.elsewhere[place]
    # Of another structure its tensors are known in here only.
    sizes = conditions(graph, pyname) if _has_other_structure(pass_, graph) else []
    mine = {node.target: pyname(node.name) for node in pass_.params}
    weights = [(pyname(node.name), mine[node.target]) for node in graph.nodes if node.op == "param"]
    inner = [f"{pyname(node.name)} = {node.target}" for node in graph.nodes if is_inner(node)]
    return [
        "@torch.no_grad()",
        f"def _elsewhere{place}({', '.join(pass_.values)}):",
        '    """The operator at other sizes as plain ATen calls."""',
        *_indented([*inner, *(f"{name} = {other}" for name, other in weights if name != other)]),
        *_indented(
            name_repeated_lines(
                [*(_refusal(sizes, "the reference branches on these sizes") if sizes else []), *program(graph)]
            )
        ),
    ]


def _led_elsewhere(pass_: Pass) -> list[str]:
    """Sizes at which the reference is another operator have calls of their own, or are refused."""
    alike = [(place, graph) for place, graph in enumerate(pass_.elsewhere) if not _has_other_structure(pass_, graph)]
    if not alike:
        return []
    lines = [f"if not ({' and '.join(conditions(pass_.graph, pyname)) or True}):"]
    for place, graph in alike:
        lines += [
            f"    if {' and '.join(conditions(graph, pyname)) or True}:",
            f"        return _elsewhere{place}({', '.join(pass_.values)})",
        ]
    # Indices that were captured may lie outside of other sizes, and on an accelerator that ends the process.
    return [*lines, "    raise NotSupported('the reference is another operator at these sizes')"]


def _has_other_structure(pass_: Pass, graph: Graph) -> bool:
    return structure_of(graph) != structure_of(pass_.graph)


def _by_structure(pass_: Pass) -> list[str]:
    """Inputs that hold another number of tensors go to the operator as it was captured with as many, or are refused."""
    expected = structure_of(pass_.graph)
    if not expected:
        return []
    arguments = ", ".join([*pass_.inputs, *(pyname(node.name) for node in pass_.params)])
    lines = [f"if not ({' and '.join(expected)}):"]
    for place, graph in enumerate(pass_.elsewhere):
        if _has_other_structure(pass_, graph):
            lines += [
                f"    if {' and '.join(structure_of(graph)) or True}:",
                f"        return _elsewhere{place}({arguments})",
            ]
    return [*lines, f"    raise NotSupported({f'generated for {expected[0]} only'!r})"]


def _aliases(pass_: Pass) -> list[str]:
    inner = [f"{pyname(node.name)} = {node.target}" for node in pass_.graph.nodes if is_inner(node)]
    return [
        *_by_structure(pass_),
        *inner,
        *(f"{pyname(name)} = {name}" for name in pass_.inputs if pyname(name) != name),
    ]


def _body(pass_: Pass) -> list[str]:
    graph = pass_.graph
    values = ", ".join(pass_.values)
    lines = [*_aliases(pass_), *pass_.host_wrapper.head(pass_.values)]
    if len(pass_.values) > MANY_VALUES:
        lines.append(f"_values = ({values})")
        values = "*_values"
    fallback = f"    return _aten{pass_.suffix}({values})"
    kinds = guard(graph, bool(pass_.params), pass_.place)
    if kinds:
        lines += [f"if not ({' and '.join(kinds)}):", fallback]
    lines += _led_elsewhere(pass_)
    lines += _refusals(graph)
    lines += sizes_from_inputs(graph)
    sizes = [*size_conditions(graph), *pass_.conditions]
    if extra_guards(graph):
        sizes.append(f"_valid{pass_.suffix}({', '.join(graph.symbols)})")
    if sizes:
        lines += [f"if not ({' and '.join(sizes)}):", fallback]
    return _indented(name_repeated_lines([*lines, *pass_.host_wrapper.body(fallback)]))


def _kinds(pass_: Pass) -> list[str]:
    """Of another dtype or rank the captured calls compute something else than the reference."""
    tensors = [node for node in pass_.graph.nodes if node.op in ("input", "param") and node.values]
    kinds = [(node.name, pyname(node.name), node.values[0]) for node in tensors]
    if not kinds:
        return []
    return [
        "for name, tensor, dtype, rank in (",
        *(f"    ({name!r}, {value}, torch.{meta.dtype}, {len(meta.shape)})," for name, value, meta in kinds),
        "):",
        "    if tensor.dtype is not dtype or tensor.ndim != rank:",
        '        raise NotSupported(f"generated for {name} of {dtype} with {rank} dimensions")',
    ]


def _refusals(graph: Graph) -> list[str]:
    """Where the reference would have gone another way than it was captured on, nothing here says what is right."""
    numbers = [node for node in graph.nodes if node.op == "input" and not node.values and node.expr is None]
    fixed = [n for n in numbers if isinstance(n.literal, int | float | str)]
    lines = []
    if graph.decided:
        lines += _refusal(strongest(graph.decided), "the reference branches on these sizes")
    for node in fixed:
        value = argument(node.literal, pyname)
        lines += _refusal([f"{pyname(node.name)} == {value}"], f"generated for {node.name} = {value} only")
    return lines


def _single_sizes(graph: Graph) -> list[str]:
    """What was captured at a size of 1 has that number wherever the reference asks for the size."""
    lines = []
    for node in graph.nodes:
        for dim, size in enumerate(node.values[0].shape if node.op == "input" and node.values else ()):
            if size == 1:
                condition = f"{pyname(node.name)}.shape[{dim}] == 1"
                lines += _refusal([condition], f"generated for {node.name}.shape[{dim}] = 1 only")
    return lines


def _refusal(conditions: Sequence[str], sentence: str) -> list[str]:
    holds = " and ".join(f"({condition})" for condition in conditions)
    return [f"if not ({holds}):", f"    raise NotSupported({sentence!r})"]


def _valid(pass_: Pass) -> list[str]:
    """Conditions on the sizes that only matter once a shape, checked once a shape."""
    extra = extra_guards(pass_.graph)
    if not extra:
        return []
    return [
        "@functools.lru_cache(maxsize=256)",
        f"def _valid{pass_.suffix}({', '.join(pass_.graph.symbols)}):",
        '    """Whether the kernels are right for these sizes."""',
        f"    return {' and '.join(f'({condition})' for condition in extra)}",
        "",
        "",
    ]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
