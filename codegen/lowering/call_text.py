"""What PyTorch computes in a generated file: graph nodes as Python text, each a call of its ATen operator."""

import keyword
import re
from collections.abc import Callable, Collection, Mapping

from ...hardware.machine.work import operands, refs
from ...schemas import Arg, DType, Expr, Graph, Items, Node, Ref, SpecialFloat
from ...schemas.graph import ComplexNumber, MemoryFormat
from ..ir.poly import UNKNOWN
from .part_writes import is_inside
from .pointwise import base_name
from .rolled import Loop, Names, rolled, shortened
from .size_divisions import unfit_divisions
from .views import VIEWS

_TAKEN = {"torch", "ctypes", "math", "max", "min", "self", "kernel", "float", "int", "complex", "len", "os", "json",
          "platform", "hashlib", "shutil", "subprocess", "tempfile", "functools", "bool", "chunks",
          "starts", "kept", "launched", "_values", "_read", "_written", "holder", "value"}  # fmt: skip


def pyname(name: str) -> str:
    """A graph's name as a Python variable that hides nothing the host wrapper uses."""
    clean = re.sub(r"^(?=\d)", "p", re.sub(r"\W", "_", name))
    reserved = keyword.iskeyword(clean) or clean in _TAKEN or re.fullmatch(r"[sur]\d+", clean)
    return f"{clean}_" if reserved else clean


def argument(arg: Arg, tensor: Callable[[str], str]) -> str:
    """An argument of a node; ``tensor`` prints what a name refers to."""
    match arg:
        case Ref():
            return tensor(arg.name)
        case Expr():
            return arg.value
        case DType() | MemoryFormat():
            return f"torch.{arg.name}"
        case SpecialFloat():
            return f'float("{arg.value}")'
        case ComplexNumber():
            return f'complex("{arg.value}")'
        case Items():
            return "[" + ", ".join(argument(item, tensor) for item in arg.items) + "]"
    return repr(arg)


_ANY_STRIDES = dict.fromkeys(("aten.view.default", "aten._unsafe_view.default"), "aten.reshape.default")
"""What is a view of the inputs that capture saw may have to be a copy of others, as it is in the reference."""


_DENSE_ROWS = {
    "_scaled_dot_product_flash_attention_for_cpu": slice(3),
    "_scaled_dot_product_flash_attention_for_cpu_backward": slice(1, 5),
}
"""Read rows of these arguments without looking at their strides; eager takes another way there."""
_DENSE = {
    "_embedding_bag", "_embedding_bag_forward_only", "_embedding_bag_backward", "_embedding_bag_dense_backward",
    "_pdist_forward", "_pdist_backward", "_weight_norm_interface", "_weight_norm_interface_backward",
    "native_layer_norm_backward", "native_group_norm_backward",
}  # fmt: skip
"""Read all tensors as if they were contiguous, or refuse others. In eager the operators that call them copy; a trace
of contiguous inputs has no sign of that."""


def call(node: Node, tensor: Callable[[str], str]) -> str:
    """A node as a call."""
    args = [argument(arg, tensor) for arg in node.args]
    name = base_name(node.target)
    if rows := _DENSE_ROWS.get(name):
        args[rows] = [f"({arg} if {arg}.stride(-1) == 1 else {arg}.contiguous())" for arg in args[rows]]
    if name in _DENSE:
        args = [f"{a}.contiguous()" if isinstance(n, Ref) else a for a, n in zip(args, node.args, strict=True)]
    if node.target == "operator.getitem":
        return f"{args[0]}[{args[1]}]"
    args += [f"{key}={argument(arg, tensor)}" for key, arg in node.kwargs.items()]
    return f"torch.ops.{_ANY_STRIDES.get(node.target, node.target)}({', '.join(args)})"


def sizes_from_inputs(graph: Graph) -> list[str]:
    """Statements that read every symbol from the inputs, then what is computed from these."""
    lines = []
    for name, source in graph.symbols.items():
        value = pyname(source.input)
        read = source.expr or (value if source.dim < 0 else f"{value}.shape[{source.dim}]")
        lines.append(f"{name} = {read}")
    for condition in unfit_divisions(graph):
        sentence = "the reference divides other numbers than positive ones here"
        lines += [f"if {condition}:", f"    raise NotSupported({sentence!r})"]
    return lines


def makes_tensor(node: Node) -> bool:
    """Whether a call makes a tensor of numbers alone: somebody must say where."""
    return node.target.startswith("aten.") and not any(operands(node))


def program(graph: Graph) -> list[str]:
    """The whole graph as a list of ATen calls, ending with ``return``."""
    lines = sizes_from_inputs(graph)
    symbols = set(graph.symbols)
    tensors = [pyname(node.name) for node in graph.nodes if node.op in ("input", "param") and node.values]

    def text_of(node: Node, shown: Node, tensor: Callable[[str], str]) -> str:
        text = call(shown, tensor)
        return f"{text[:-1]}, device={tensors[0]}.device)" if tensors and makes_tensor(node) else text

    output = graph.nodes[-1]
    calls = [node for node in graph.nodes if node.op == "call"]
    steps = rolled(calls, operands(output))
    names = Names(steps, pyname)
    for step in steps:
        if isinstance(step, Loop):
            lines += names.lines(step, text_of)
        else:
            lines.append(f"{step.expr or pyname(step.name)} = {text_of(step, step, names)}")
            lines += unbacked(step, symbols)
    return [shortened(line) for line in (*lines, *ending(graph, names))]


def unbacked(node: Node, symbols: set[str]) -> list[str]:
    """Statements that read the sizes that are known only once ``node`` has run; they are added to ``symbols``."""
    lines = []
    for place, meta in enumerate(node.values):
        item = f"[{place}]" if len(node.values) > 1 else ""
        for dim, size in enumerate(meta.shape):
            if isinstance(size, str) and UNKNOWN.fullmatch(size) and size not in symbols:
                symbols.add(size)
                lines.append(f"{size} = {pyname(node.name)}{item}.shape[{dim}]")
    return lines


_FEW = 4
"""So many writes are spelled out."""
_ALIASES = VIEWS | {"alias", "detach", "as_strided", "diagonal", "unfold", "view_as_real", "view_as_complex", "real",
                    "imag", "_conj", "lift_fresh", "_reshape_alias"}  # fmt: skip
"""Operators whose result may lie in their first argument's memory."""


def ending(graph: Graph, tensor: Callable[[str], str], in_place: Collection[str] = ()) -> list[str]:
    """Statements that write what the operator leaves behind, and return its results.

    Nothing is written before everything is computed, and what lies in memory that is written is copied before that.
    Kernels may have put the new values of what is ``in_place`` where they belong; what is :data:`WRITTEN` is there.
    """
    output = graph.nodes[-1]
    nodes = {node.name: node for node in graph.nodes}

    def kept(arg: Arg, holder: str = "") -> str:
        text = argument(arg, tensor)
        owner = _owner(nodes, arg.name) if isinstance(arg, Ref) else holder
        return f"{text}.clone()" if owner != holder and owner in output.kwargs else text

    left = {h: arg for h, arg in output.kwargs.items() if not (isinstance(arg, Ref) and is_inside(nodes[arg.name], h))}
    new = {holder: kept(arg, holder) for holder, arg in left.items()}
    is_written = [isinstance(arg, Ref) and arg.name in output.kwargs for arg in output.args]
    results = [argument(a, tensor) if w else kept(a) for a, w in zip(output.args, is_written, strict=True)]
    lines = []
    if output.kwargs or output.target:
        names = [f"r{place}" for place in range(len(results))]
        lines += [f"{name} = {text}" for name, text in zip(names, results, strict=True)]
        results = names
    lines += [f"{tensor(holder)}_new = {text}" for holder, text in new.items() if text.endswith(".clone()")]
    values = {h: f"{tensor(h)}_new" if text.endswith(".clone()") else text for h, text in new.items()}
    if len(new) > _FEW and new.keys() <= set(in_place):
        lines += _write_all({tensor(holder): value for holder, value in values.items()})
    else:
        for holder, value in values.items():
            lines += _write(tensor(holder), value, holder in in_place)
    return [*lines, f"return {output.target or returned(results)}"]


def _write(holder: str, value: str, in_place: bool) -> list[str]:
    if not in_place:
        return [f"{holder}.copy_({value})"]
    # Autograd refuses to use what it kept of a tensor that was written since, if it is told so.
    return [
        f"if {value} is {holder}:",
        f"    torch.autograd.graph.increment_version({holder})",
        "else:",
        f"    {holder}.copy_({value})",
    ]


def _write_all(values: Mapping[str, str]) -> list[str]:
    """As :func:`_write` of all that is in place: autograd is told once, which takes as long as telling it of one."""
    return [
        f"_written = ({', '.join(f'({holder}, {value})' for holder, value in values.items())})",
        "torch.autograd.graph.increment_version([holder for holder, value in _written if value is holder])",
        "for holder, value in _written:",
        "    if value is not holder:",
        "        holder.copy_(value)",
    ]


def _owner(nodes: dict[str, Node], name: str) -> str:
    """The node in whose memory ``name`` may lie."""
    node = nodes[name]
    while node.op == "call" and (base_name(node.target) in _ALIASES or node.target == "operator.getitem"):
        inner = next(refs(node.args), None)
        if inner is None:
            break
        node = nodes[inner]
    return node.name


def returned(values: list[str]) -> str:
    """What the reference returns where nothing else is said: one value or a tuple."""
    return values[0] if len(values) == 1 else f"({', '.join(values)})"
