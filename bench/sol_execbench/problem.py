"""A problem of SOL-ExecBench as a function file: its reference, a shape for each workload, and how inputs are drawn."""

import ast
import math
import operator
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...hardware.sources.parsing import parse
from ...schemas import Problem, ProblemError, ProblemFormat, sha256
from .definition import Axis, Definition, Source, Tolerance, Workload, read_definition, read_workloads
from .drawing import drawn
from .tensors import DECODER, MOST_BYTES, tensor_text

NAMES = ("shapes", "timed", "inputs", "reference", "published_tolerance")

LARGEST_POWER = 64
"""Exponent in an axis's expression."""

DATA = "data"
"""Argument of ``inputs`` that names a workload's tensors, where they come from files."""


def load(folder: Path, place: Path, name: str, timed: int) -> Problem:
    """The problem in ``folder``, ``timed`` of whose workloads are timed; ``place`` is the root of its data.

    Raises:
        ProblemError: its files cannot be read, or ask for what cannot be drawn here.
    """
    definition, workloads = read_definition(folder), read_workloads(folder)
    source = problem_source(
        definition, workloads, [folder, *folder.parents][: len(folder.parts) - len(place.parts) + 3], timed
    )
    identifier = "".join(letter if letter.isalnum() else "_" for letter in name.lower()).strip("_") or "problem"
    return Problem(name=identifier, format=ProblemFormat.function, source=source, sha256=sha256(source))


def problem_source(definition: Definition, workloads: Sequence[Workload], places: Sequence[Path], timed: int) -> str:
    """The function file; data files are looked for in ``places``.

    Raises:
        ProblemError: something of it cannot be said in such a file.
    """
    sizes = [_resolved(definition.axes, workload) for workload in workloads]
    elements = [_elements(definition, size) for size in sizes]
    order = sorted(range(len(workloads)), key=lambda index: elements[index])
    chosen = _spread(order, timed)
    varying = _varying_scalars(workloads)
    tables = _tables(definition, workloads, places)
    names = _names(workloads)
    arguments = [
        _arguments(definition, workload, varying, names[i] if tables else "") for i, workload in enumerate(workloads)
    ]
    first = [*chosen, *(index for index in range(len(workloads)) if index not in chosen)]
    parts = [
        _header(definition),
        *(["import base64\nimport zlib"] if tables else []),
        f"import torch\n\n{_reference(definition)}",
        _dictionary("shapes", {names[index]: _keywords(arguments[index]) for index in first}),
        _dictionary("timed", {names[index]: "1" for index in chosen}),
        _dictionary("published_tolerance", {name: _tolerance(w) for name, w in zip(names, workloads, strict=True)}),
        *([DECODER.strip(), _dictionary("tensors", tables)] if tables else []),
        _inputs(definition, workloads, list(arguments[0])),
        "reference = run",
    ]
    return "\n\n\n".join(parts) + "\n"


def _header(definition: Definition) -> str:
    text = f"{definition.name} of SOL-ExecBench: {definition.description or 'an operator'}"
    return "\n".join(f"# {line}" for line in textwrap.wrap(" ".join(text.split()), 100))


def _reference(definition: Definition) -> str:
    """The reference's source, which must not use this file's own names for something else."""
    try:
        tree = parse(definition.reference)
    except (SyntaxError, ValueError) as error:
        raise ProblemError(f"the reference of {definition.name} is not Python: {error}") from error
    names = set().union(*map(_named, tree.body))
    if "run" not in names:
        raise ProblemError(f"the reference of {definition.name} lacks the function `run`")
    if taken := names & {*NAMES, "tensors", "_tensor"}:
        raise ProblemError(
            f"the reference of {definition.name} has a name of its own that problem files use: {min(taken)}"
        )
    return definition.reference.strip()


def _tolerance(workload: Workload) -> str:
    """The benchmark's own check, which is reported beside the judge's."""
    own = workload.tolerance or Tolerance()
    return f"dict(atol={own.max_atol!r}, rtol={own.max_rtol!r}, share={own.required_matched_ratio!r})"


def _named(statement: ast.stmt) -> set[str]:
    """Names that a statement gives to the module that is imported."""
    if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
        return set()
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _resolved(axes: Mapping[str, Axis], workload: Workload) -> dict[str, int]:
    """Every axis with its size at a workload."""
    sizes = dict(workload.axes)
    for name, axis in axes.items():
        if axis.type == "const" and axis.value is not None:
            sizes[name] = axis.value
        elif axis.type == "var" and name not in sizes:
            raise ProblemError(f"workload {workload.uuid} does not say how large axis {name} is")
    for name in _in_order(axes):
        sizes[name] = int(_evaluated(axes[name].expression, sizes))
    return sizes


def _in_order(axes: Mapping[str, Axis]) -> list[str]:
    """Axes that are expressions, each behind those that it is made of."""
    waiting = {name: _names_in(axis.expression) for name, axis in axes.items() if axis.type == "expr"}
    ordered: list[str] = []
    while waiting:
        ready = [name for name, needed in waiting.items() if not needed & set(waiting)]
        if not ready:
            raise ProblemError(f"axes are made of one another: {', '.join(waiting)}")
        ordered += ready
        waiting = {name: needed for name, needed in waiting.items() if name not in ready}
    return ordered


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _parsed(expression: str) -> ast.expr:
    try:
        return parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ProblemError(f"axis expression {expression!r} is not understood") from error


def _names_in(expression: str) -> set[str]:
    return {node.id for node in ast.walk(_parsed(expression)) if isinstance(node, ast.Name)}


def _evaluated(expression: str, sizes: Mapping[str, int]) -> float:
    try:
        return float(_value(_parsed(expression), sizes))
    except (KeyError, ArithmeticError) as error:
        raise ProblemError(f"axis expression {expression!r} cannot be computed: {error!r}") from error


def _value(node: ast.expr, sizes: Mapping[str, int]) -> Any:
    """Arithmetic on names and numbers alone."""
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.Name():
            return sizes[node.id]
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](_value(node.operand, sizes))
        case ast.BinOp():
            left, right = _value(node.left, sizes), _value(node.right, sizes)
            if isinstance(node.op, ast.Pow) and abs(right) > LARGEST_POWER:
                raise OverflowError(f"a power of {right}")
            return _OPERATORS[type(node.op)](left, right)
    raise KeyError(type(node).__name__)


def _elements(definition: Definition, sizes: Mapping[str, int]) -> int:
    return sum(math.prod(_size(part, sizes) for part in value.shape or ()) for value in definition.inputs.values())


def _size(part: str | int, sizes: Mapping[str, int]) -> int:
    return int(part) if isinstance(part, int) or part.isdigit() else sizes.get(part, 1)


def _spread(order: Sequence[int], count: int) -> list[int]:
    """``count`` of ``order``, evenly spread; one is the middle."""
    count = min(count, len(order))
    if count == 1:
        return [order[len(order) // 2]]
    return [order[round(step * (len(order) - 1) / (count - 1))] for step in range(count)]


def _varying_scalars(workloads: Sequence[Workload]) -> set[str]:
    """Inputs that are numbers, and not the same in every workload."""
    scalars = [
        {name: repr(source.value) for name, source in w.inputs.items() if source.type == "scalar"} for w in workloads
    ]
    every = {name for values in scalars for name in values}
    return {name for name in every if len({values.get(name) for values in scalars}) > 1}


def _names(workloads: Sequence[Workload]) -> list[str]:
    """A name for each, by its sizes; those with the same sizes are numbered."""
    plain = [" ".join(f"{name}={size}" for name, size in workload.axes.items()) or "main" for workload in workloads]
    return [name if plain.count(name) == 1 else f"{name} #{plain[:i].count(name) + 1}" for i, name in enumerate(plain)]


def _arguments(definition: Definition, workload: Workload, varying: set[str], data: str) -> dict[str, str]:
    """What ``inputs`` is called with at a workload, as text."""
    sizes = {name: str(workload.axes[name]) for name, axis in definition.axes.items() if axis.type == "var"}
    numbers = {name: _literal(workload.inputs[name].value) for name in definition.inputs if name in varying}
    return {**sizes, **numbers, **({DATA: repr(data)} if data else {})}


def _literal(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _keywords(arguments: Mapping[str, str]) -> str:
    return f"dict({', '.join(f'{name}={text}' for name, text in arguments.items())})"


def _dictionary(name: str, items: Mapping[str, str]) -> str:
    lines = "".join(f"    {key!r}: {text},\n" for key, text in items.items())
    return f"{name} = {{\n{lines}}}"


def _inputs(definition: Definition, workloads: Sequence[Workload], arguments: Sequence[str]) -> str:
    axes = definition.axes
    lines = [f"{name} = {axis.value}" for name, axis in axes.items() if axis.type == "const"]
    lines += [f"{name} = int({axes[name].expression})" for name in _in_order(axes)]
    sources = workloads[0].inputs
    numbers = {name: source for name, source in sources.items() if source.type == "scalar" and name not in arguments}
    lines += [f"{name} = {_literal(source.value)}" for name, source in numbers.items()]
    if any(source.type == "custom" for source in sources.values()):
        every = [*axes, *(name for name, source in sources.items() if source.type == "scalar")]
        given = ", ".join(f"{name!r}: {name}" for name in every)
        lines.append(f"custom = {_entrypoint(definition)}({{{given}}}, generator.device)")
    items = [_item(definition, name, sources.get(name, Source(type="random"))) for name in definition.inputs]
    body = (
        "".join(f"    {line}\n" for line in lines) + "    return [\n" + "".join(f"        {item},\n" for item in items)
    )
    return f"def inputs({', '.join(['generator', *arguments])}):\n{body}    ]"


def _entrypoint(definition: Definition) -> str:
    if not (definition.custom_inputs_entrypoint or "").isidentifier():
        raise ProblemError(f"{definition.name} has inputs of its own, and names no function that draws them")
    return str(definition.custom_inputs_entrypoint)


def _item(definition: Definition, name: str, source: Source) -> str:
    if source.type == "scalar":
        return name
    if source.type == "custom":
        return f"custom[{name!r}]"
    if source.type == "safetensors":
        return f"tensors[{DATA}][{name!r}].clone()"
    if source.type != "random":
        raise ProblemError(f"input {name} of {definition.name} comes from {source.type!r}, which is not known here")
    return drawn(name, definition.inputs[name])


def _tables(definition: Definition, workloads: Sequence[Workload], places: Sequence[Path]) -> dict[str, str]:
    """Text of the tensors that come from files, by workload; empty if there are none.

    Raises:
        ProblemError: a file is missing, or they are too large to travel in a problem's text.
    """
    tables: dict[str, str] = {}
    for workload, name in zip(workloads, _names(workloads), strict=True):
        sources = {key: source for key, source in workload.inputs.items() if source.type == "safetensors"}
        if sources:
            texts = [
                f"{key!r}: {tensor_text(_file(source.path, places), source.tensor_key)}"
                for key, source in sources.items()
            ]
            tables[name] = f"{{{', '.join(texts)}}}"
    if (size := sum(map(len, tables.values()))) > MOST_BYTES:
        raise ProblemError(
            f"{definition.name} takes {size} bytes of inputs from files; a problem carries {MOST_BYTES}, and no files"
        )
    return tables


def _file(path: str, places: Sequence[Path]) -> Path:
    parts = Path(path).parts
    for place in places:
        for skipped in range(len(parts)):
            file = place.joinpath(*parts[skipped:])
            if file.is_file():
                return file
    raise ProblemError(f"there is no file {path} beside the problem; run the benchmark's scripts/download_data.sh")
