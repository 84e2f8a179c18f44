"""Python text of graph nodes as calls of ATen operators."""

import keyword
import re
from collections.abc import Callable

from ....schemas import Arg, DType, Expr, Graph, Items, Node, Ref, SpecialFloat

_TAKEN = {"torch", "ctypes", "math", "max", "min", "self", "kernel", "float", "int", "len", "os", "json", "platform",
          "hashlib", "shutil", "subprocess", "tempfile", "functools", "bool", "chunks", "starts", "kept"}  # fmt: skip


def pyname(name: str) -> str:
    """A graph's name as a Python variable that hides nothing the glue uses."""
    clean = re.sub(r"\W", "_", name)
    reserved = keyword.iskeyword(clean) or clean in _TAKEN or re.fullmatch(r"[su]\d+", clean)
    return f"{clean}_" if reserved else clean


def argument(arg: Arg, tensor: Callable[[str], str]) -> str:
    """An argument of a node; ``tensor`` prints what a name refers to."""
    match arg:
        case Ref():
            return tensor(arg.name)
        case Expr():
            return arg.value
        case DType():
            return f"torch.{arg.name}"
        case SpecialFloat():
            return f'float("{arg.value}")'
        case Items():
            return "[" + ", ".join(argument(item, tensor) for item in arg.items) + "]"
    return repr(arg)


_ANY_STRIDES = dict.fromkeys(("aten.view.default", "aten._unsafe_view.default"), "aten.reshape.default")
"""What is a view of the inputs that capture saw may have to be a copy of others, as it is in the reference."""


def call(node: Node, tensor: Callable[[str], str]) -> str:
    """A node as a call."""
    args = [argument(arg, tensor) for arg in node.args]
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
    return lines


def program(graph: Graph) -> list[str]:
    """The whole graph as a list of ATen calls, ending with ``return``."""
    lines = sizes_from_inputs(graph)
    known = set(graph.symbols)
    for node in graph.nodes:
        if node.op == "output":
            lines.append(f"return {returned([argument(arg, pyname) for arg in node.args])}")
        elif node.op == "call":
            target = node.expr if node.expr else pyname(node.name)
            lines.append(f"{target} = {call(node, pyname)}")
            lines += unbacked(node, known)
    return lines


def unbacked(node: Node, known: set[str]) -> list[str]:
    """Statements that read the sizes that are known only once ``node`` has run; they are added to ``known``."""
    lines = []
    for place, meta in enumerate(node.values):
        item = f"[{place}]" if len(node.values) > 1 else ""
        for dim, size in enumerate(meta.shape):
            if isinstance(size, str) and re.fullmatch(r"u\d+", size) and size not in known:
                known.add(size)
                lines.append(f"{size} = {pyname(node.name)}{item}.shape[{dim}]")
    return lines


def returned(values: list[str]) -> str:
    """What the reference returns: one value or a tuple."""
    return values[0] if len(values) == 1 else f"({', '.join(values)})"
