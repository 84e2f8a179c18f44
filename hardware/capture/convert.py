"""Turns a traced ``fx.GraphModule`` into the torch-free :class:`Graph`."""

import math
import re
from pathlib import Path
from typing import Any

from ...schemas import (
    Arg,
    DType,
    Expr,
    Graph,
    Items,
    Node,
    ProblemError,
    Ref,
    SpecialFloat,
    SymbolSource,
    TensorMeta,
)
from ...schemas.graph import ComplexNumber, MemoryFormat
from . import recurrent
from .nested import OBJECT
from .positions import as_indices
from .spelled import pad_circular
from .state import UnwritableState
from .trace import Traced

_CONSTANT_LIMIT = 4096
_FIRST_COMPUTED = 10_000
_ASSERTIONS = ("_assert", "sym_constrain_range")
_ARITHMETIC = (
    "_subclasses", "_meta_registrations.py", "_prims", "_prims_common", "_refs", "functional.py", "nn/functional.py",
)  # fmt: skip
"""Where torch works out shapes: what is asked there is whether operands fit, which ATen asks again."""
_EMPTY = re.compile(r"!= [01]$|>= 0$")


def convert(traced: Traced, prefix: str = "") -> Graph:
    """Convert what was traced; the names of what it computes begin with ``prefix``.

    Raises:
        ProblemError: the graph holds something that is neither a tensor nor a number, or a large constant.
    """
    traced.module.graph.eliminate_dead_code()
    return as_indices(_Converter(traced, prefix).graph())


class _Converter:
    def __init__(self, traced: Traced, prefix: str = "") -> None:
        self.traced = traced
        self.prefix = prefix
        self.module = traced.module
        self.inputs = traced.inputs
        self.labels = traced.labels
        self.read_once: dict[str, str] = {}
        """Nodes of parameters by qualified name: a trace may read one several times."""
        self.written: dict[str, Arg] = {}
        """New values of inputs and parameters, by the name of their node."""
        self.names: dict[str, str] = {}
        self.symbols: dict[str, SymbolSource] = {}
        self.computed: dict[Any, Any] = {}
        """Symbols of their own for sizes that are no polynomials of others: ``int(1.5 * x.shape[0])``."""
        self.shape_env: Any = None
        self.read: dict[Any, str] = {}
        """Where each symbol as it was at first is read from, those that turned out to be numbers or others included."""

    def graph(self) -> Graph:
        """The whole graph: every argument of the reference first, used or not."""
        fx_nodes = list(self.module.graph.nodes)
        placeholders = [node for node in fx_nodes if node.op == "placeholder"]
        nodes = [*self._inputs(placeholders), *self._state(placeholders)]
        for node in fx_nodes:
            if node.op != "placeholder":
                nodes.extend(self._node(node))
        return Graph(nodes=tuple(nodes), symbols=self.symbols, guards=self._guards(), decided=self._decided())

    def _inputs(self, placeholders: list[Any]) -> list[Node]:
        by_position = dict(zip(self.traced.positions, placeholders, strict=False))
        for position, fx_node in by_position.items():
            self._read(self.labels[position], fx_node.meta.get("val"), self.inputs[position])
        nodes = []
        for position, label in enumerate(self.labels):
            value = self.inputs[position]
            fx_node = by_position.get(position)
            if fx_node is None:
                is_object = value is not None and _literal(value) is None
                target = OBJECT if is_object else ""
                nodes.append(Node(name=label, op="input", target=target, literal=_literal(value)))
                continue
            self.names[fx_node.name] = label
            meta = fx_node.meta.get("val", value)
            nodes.append(self._input(label, meta, value))
        return nodes

    def _read(self, label: str, meta: Any, value: Any) -> None:
        """Note the symbols that an input gives."""
        is_tensor = hasattr(meta, "shape")
        for dim, size in enumerate(meta.shape) if is_tensor else [(-1, meta)]:
            self._note(size, f"{label}.shape[{dim}]" if is_tensor else label)
            if _is_symbol(size):
                example = int(value.shape[dim]) if is_tensor else int(value)
                self.symbols.setdefault(str(size.node.expr), SymbolSource(input=label, dim=dim, example=example))

    def _input(self, label: str, meta: Any, value: Any) -> Node:
        if not hasattr(meta, "shape"):
            if _is_symbol(meta):
                return Node(name=label, op="input", expr=str(self._dim(meta)), literal=int(value))
            return Node(name=label, op="input", literal=_literal(value))
        return Node(name=label, op="input", values=(self._meta(meta),))

    def _node(self, node: Any) -> list[Node]:
        if node.op == "output":
            return [self._output(node)]
        if node.op == "get_attr":
            return self._attribute(node)
        if node.op == "call_module" and not node.users:
            return []  # torch.export checks its guards in a module of its own
        if node.op != "call_function":
            raise ProblemError(f"the captured graph holds {node.op} {node.target}, which cannot be searched")
        target = _target(node.target)
        if any(part in target for part in _ASSERTIONS):
            return []
        if target == "aten.copy_.default" and not node.users and node.args[0].op in ("get_attr", "placeholder"):
            self.written[self._arg(node.args[0]).name] = self._arg(node.args[1])  # type: ignore[union-attr]
            return []
        name = self._unique(node.name)
        value = node.meta.get("val")
        if _is_number(value):
            op = "call" if "_local_scalar_dense" in target else "size"
            return [Node(name=name, op=op, target=target, args=self._args(node), expr=str(self._dim(value)))]
        return [
            Node(
                name=name,
                op="call",
                target=target,
                args=self._args(node),
                kwargs={key: self._arg(item) for key, item in node.kwargs.items() if _keep(key)},
                values=self._values(value),
            )
        ]

    def _state(self, placeholders: list[Any]) -> list[Node]:
        """Parameters and buffers that were traced as arguments, if anything uses them."""
        given = placeholders[len(self.traced.positions) :]
        read = {name: node for name, node in zip(self.traced.state, given, strict=True) if len(node.users)}
        values = {name: node.meta["val"] for name, node in read.items()}
        aliases = {names[0]: names for names in self.traced.names.values()}
        return [self._parameter(node, values[name], aliases[name]) for name, node in read.items()]

    def _output(self, node: Any) -> Node:
        flat = node.args[0] if isinstance(node.args[0], list | tuple) else [node.args[0]]
        results, left = flat[: self.traced.results], flat[self.traced.results :]
        placeholders = [fx_node for fx_node in self.module.graph.nodes if fx_node.op == "placeholder"]
        inputs = [p for p, i in zip(placeholders, self.traced.positions, strict=False) if _is_tensor(self.inputs[i])]
        holders = [*placeholders[len(self.traced.positions) :], *inputs]
        for holder, value in zip(holders, left, strict=bool(left)):
            if value is not holder:
                self._write(holder, value)
        listed = [self._arg(item) for item in results]
        for place, position in self.traced.same.items():
            holder = self.names[holders[position - len(results)].name]
            listed[place] = Ref(name=holder) if holder in self.written else listed[place]
        return Node(name="output", op="output", target=self.traced.structure, args=tuple(listed), kwargs=self.written)

    def _write(self, holder: Any, value: Any) -> None:
        before, after = holder.meta["val"], value.meta["val"]
        name = self.names[holder.name]
        if before.shape != after.shape or before.dtype != after.dtype:
            raise UnwritableState(f"the reference replaces `{name}` by a tensor of another shape or dtype")
        self.written[name] = self._arg(value)

    def _attribute(self, node: Any) -> list[Node]:
        value = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        names = self.traced.names.get(id(value))
        if names:
            if names[0] in self.read_once:
                self.names[node.name] = self.read_once[names[0]]
                return []
            return [self._parameter(node, value, names)]
        name = self._unique(node.name)
        if not hasattr(value, "numel") or value.numel() > _CONSTANT_LIMIT:
            raise ProblemError(f"the reference uses a large constant that is no parameter ({node.target}); register it")
        items = tuple(_literal(item) for item in value.detach().cpu().flatten().tolist())
        return [Node(name=name, op="constant", values=(self._meta(value),), literal=Items(items=items))]

    def _parameter(self, node: Any, value: Any, names: list[str]) -> Node:
        name = self._unique(node.name, re.sub(r"^(?=\d)", "p", re.sub(r"\W", "_", names[0])))
        self.read_once[names[0]] = name
        others = Items(items=tuple(names[1:])) if names[1:] else None
        return Node(name=name, op="param", target=names[0], values=(self._meta(value),), literal=others)

    def _unique(self, name: str, preferred: str = "") -> str:
        new = preferred or f"{self.prefix}{name}"
        while new in self.labels or new in self.names.values():
            new = f"{new}_"
        self.names[name] = new
        return new

    def _args(self, node: Any) -> tuple[Arg, ...]:
        return tuple(self._arg(item) for item in node.args)

    def _arg(self, value: Any) -> Arg:
        import torch
        from torch.fx import Node as FxNode

        if isinstance(value, FxNode):
            meta = value.meta.get("val")
            if _is_number(meta):
                dim = self._dim(meta)
                return Expr(value=dim) if isinstance(dim, str) else dim
            return Ref(name=self.names.get(value.name, value.name))
        if isinstance(value, list | tuple):
            return Items(items=tuple(self._arg(item) for item in value))
        if isinstance(value, torch.dtype):
            return DType(name=str(value).removeprefix("torch."))
        if isinstance(value, torch.memory_format):
            return MemoryFormat(name=str(value).removeprefix("torch."))
        if isinstance(value, torch.SymInt | torch.SymFloat):
            dim = self._dim(value)
            return Expr(value=dim) if isinstance(dim, str) else dim
        return _literal(value)

    def _values(self, value: Any) -> tuple[TensorMeta, ...]:
        if value is None:
            return ()
        if isinstance(value, list | tuple):
            return tuple(self._meta(item) for item in value if item is not None)
        return (self._meta(value),)

    def _meta(self, value: Any) -> TensorMeta:
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            raise ProblemError(f"the captured graph holds a {type(value).__name__}, which cannot be searched")
        shape = tuple(self._dim(size) for size in value.shape)
        strides = tuple(self._dim(size) for size in value.stride())
        return TensorMeta(
            shape=shape,
            dtype=str(value.dtype).removeprefix("torch."),
            example=self._example(shape),
            strides=strides,
        )

    def _example(self, shape: tuple[int | str, ...]) -> tuple[int, ...]:
        sizes = []
        for size in shape:
            try:
                sizes.append(size if isinstance(size, int) else self._value(size))
            except NameError:
                return ()
        return tuple(sizes)

    def _dim(self, size: Any) -> int | str:
        if isinstance(size, int | float):
            return size  # type: ignore[return-value]
        node = size.node
        self.shape_env = self.shape_env or node.shape_env
        expr = node.expr
        if expr.is_Integer:
            return int(expr)
        return python_text(self._with_names(expr))

    def _with_names(self, expr: Any) -> Any:
        """``expr`` with a name for everything in it that index arithmetic knows nothing of."""
        parts = expr.atoms(*_rounding())
        terms = {part for part in parts if {str(s) for s in part.free_symbols} <= self.symbols.keys()}
        outer = [part for part in terms if not any(part is not term and term.has(part) for term in terms)]
        for part in sorted(outer, key=str):
            if part not in self.computed:
                text = python_text(part)
                # Behind every name that torch gives: it counts its own from 0.
                name = f"s{_FIRST_COMPUTED + len(self.computed)}"
                self.symbols[name] = SymbolSource(input="", dim=-1, example=self._value(text), expr=text)
                self.computed[part] = type(next(iter(part.free_symbols)))(name, integer=True)
        return expr.xreplace(self.computed)

    def _value(self, text: str) -> int:
        return int(eval(text, {"math": math}, {name: source.example for name, source in self.symbols.items()}))

    def _note(self, size: Any, name: str) -> None:
        if hasattr(size, "node"):
            self.read.setdefault(size.node._expr, name)

    def _decided(self) -> tuple[str, ...]:
        """The guards that are more than whether operands fit, over what the inputs are called."""
        import torch

        if self.shape_env is None:
            return ()
        package = Path(torch.__file__).parent
        inner = tuple(str(package / name) for name in _ARITHMETIC)
        names = {symbol: type(symbol)(name, integer=True) for symbol, name in self.read.items()}
        numbers = _numbers(self.module.graph)
        guards = []
        for guard in self.shape_env.guards:
            line, expr = guard.sloc.framework_loc, guard.expr
            if line is None or not expr.free_symbols <= names.keys():
                continue
            # Of torch's own code: whether operands are alike, which ATen asks again.
            is_torchs = line.filename.startswith(str(package))
            if is_torchs and expr.is_Equality and all(side in names for side in expr.args):
                continue
            # `F.adaptive_max_pool2d(x, (3, None))` makes a number of a size, and hands it to an operator.
            is_number = expr.is_Equality and expr.rhs.is_Integer and int(expr.rhs) in numbers
            # What is computed and 1 is a number in all that follows, too.
            is_number |= expr.is_Equality and expr.rhs == 1 and not expr.lhs.is_Symbol
            is_inner = line.filename.startswith(inner) or line.name == pad_circular.__name__
            if is_inner and not is_number:
                continue
            text = python_text(expr.xreplace(names))
            if not (is_torchs and _EMPTY.search(text)):
                guards.append(text)
        return tuple(dict.fromkeys(guards))

    def _guards(self) -> tuple[str, ...]:
        if self.shape_env is None:
            return ()
        guards = []
        for guard in self.shape_env.guards:
            expr = self.shape_env.simplify(guard.expr)
            if str(expr) == "True" or not {str(s) for s in expr.free_symbols} <= set(self.symbols):
                continue
            guards.append(python_text(expr))
        return tuple(dict.fromkeys(guards))


def python_text(expr: Any) -> str:
    """A sympy expression of torch's shape environment as Python."""
    from torch.utils._sympy.printers import PythonPrinter

    text = str(PythonPrinter().doprint(expr))
    return text.replace("torch.sym_float(", "float(").replace("torch._sym_", "math.")


def _rounding() -> tuple[type, ...]:
    """Functions that give an integer for a number that is none."""
    from torch.utils._sympy import functions

    return functions.TruncToInt, functions.FloorToInt, functions.CeilToInt, functions.RoundToInt


def _numbers(graph: Any) -> set[int]:
    """Sizes of 2 and more that are written out in operators' arguments."""
    from torch.utils._pytree import tree_leaves

    arguments = (leaf for node in graph.nodes for leaf in tree_leaves((node.args, dict(node.kwargs))))
    return {leaf for leaf in arguments if type(leaf) is int and leaf > 1}


def _is_symbol(size: Any) -> bool:
    """Whether a size is just a name."""
    return hasattr(size, "node") and bool(getattr(size.node.expr, "is_Symbol", False))


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_number(value: Any) -> bool:
    import torch

    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)


def _keep(key: str) -> bool:
    return key not in ("layout", "device", "pin_memory")


def _target(target: Any) -> str:
    name = getattr(target, "_name", None)
    if name is not None and hasattr(target, "_schema"):
        namespace, rest = str(name).split("::")
        if namespace == recurrent.NAMESPACE:
            return recurrent.original(rest)
        base, _, overload = rest.partition(".")
        return f"{namespace}.{base}.{overload or 'default'}"
    module = "operator" if getattr(target, "__module__", "") in ("_operator", "operator") else target.__module__
    return f"{module}.{target.__name__}"


def _literal(value: Any) -> Arg:
    if isinstance(value, float) and not math.isfinite(value):
        return SpecialFloat(value=str(value))
    if isinstance(value, complex):
        return ComplexNumber(value=str(value).strip("()"))
    if isinstance(value, list | tuple):
        return Items(items=tuple(_literal(item) for item in value))
    return value if isinstance(value, bool | int | float | str) else None
