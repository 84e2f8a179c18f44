"""One operator called with several inputs, as a problem with a timed shape for each.

Every call is traced alone. The texts may differ in whole numbers that are sizes of the inputs, or follow from them:
those become expressions, which give at every call what was traced there. Where sizes may be any of a range, calls with
other sizes are made and traced as well, and the problem's shapes are sizes.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec.structs import replace as replaced

from ...schemas import InputError, ProblemError, sha256
from .call_arguments import by_place_and_name, signature_of
from .drawn_inputs import drawn_line
from .dynamic_shapes import (
    DynamicShapes,
    DynamicSize,
    dynamic_sizes,
    resized,
    sampled_sizes,
    shape_text,
    sizes_of,
    sizes_text,
)
from .from_python import Traced, trace
from .source_lines import described
from .symbolic_trace import coverage
from .tensor_indices import is_position

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_REFERENCE = "\n\ndef reference("
_INPUTS = "\ndef inputs(generator):\n"
_SHAPES = 'shapes = {"main": {}}\n'

Inputs = Sequence[Any] | Mapping[str, Any]


def trace_calls(
    operator: Callable[..., Any],
    calls: Sequence[Inputs],
    weights: Sequence[float] = (),
    dynamic_shapes: DynamicShapes | None = None,
) -> Traced:
    """Write ``operator``, applied to the inputs of each of ``calls``, as a problem.

    Args:
        operator: a function or ``nn.Module``.
        calls: arguments of each call, as :func:`.from_python.trace` takes them; the first is captured.
        weights: of each call in the geometric mean; by default all are alike.
        dynamic_shapes: dimensions that may have other sizes than in the calls, each with the range of them.

    Raises:
        InputError: ``dynamic_shapes`` does not fit the calls.
        ProblemError: a call cannot be traced, calls differ in more than sizes, or the weights do not fit.
    """
    weights = tuple(weights) or (1.0,) * len(calls)
    if len(weights) != len(calls) or not all(weight > 0 for weight in weights):
        raise ProblemError(f"{len(calls)} calls, weights {list(weights)}: give a number above 0 for each call")
    traces = [trace(operator, inputs) for inputs in calls]
    first = traces[0]
    if dynamic_shapes and (dynamic := dynamic_sizes(first.inputs, dynamic_shapes)):
        return _with_sizes(traces, weights, dynamic)
    if len(traces) == 1:
        return first
    for place, other in enumerate(traces[1:], 2):
        if what := _difference(first, other):
            raise ProblemError(
                f"call {place} has other {what} than call 1, and a kernel is for one kind of call: search each alone, "
                f"`a = optimize(module, call_1)` and `b = optimize(module, call_{place})`, and use `a.kernel` for "
                "calls of the one kind, `b.kernel` for those of the other"
            )
    try:
        general = _general(traces)
    except ProblemError as error:
        raise ProblemError(f"{error}: search each alone") from None
    head = first.problem.source.partition(_REFERENCE)[0]
    names = _names(traces)
    shapes = "".join(f'    "{name}": dict(call="{name}"),\n' for name in names)
    timed = "".join(f'    "{name}": {float(weight)!r},\n' for name, weight in zip(names, weights, strict=True))
    bodies = [each.problem.source.partition(_REFERENCE)[0].partition(_INPUTS)[2] for each in traces]
    inputs = "".join(
        f'    if call == "{name}":\n' + "".join(f"    {line}\n" for line in body.rstrip().splitlines())
        for name, body in zip(names, bodies, strict=True)
    )
    source = (
        head.partition(_INPUTS)[0].replace(_SHAPES, f"shapes = {{\n{shapes}}}\ntimed = {{\n{timed}}}\n")
        + f"\ndef inputs(generator, call):\n{inputs}"
        + _REFERENCE
        + general
    )
    return _joined(traces, source)


def _with_sizes(traces: Sequence[Traced], weights: Sequence[float], dynamic: tuple[DynamicSize, ...]) -> Traced:
    """The problem of an operator whose inputs may have any of the sizes; kernels have to be right at several of them.

    Raises:
        InputError: a call has sizes out of their ranges, or differs from the first in more.
        ProblemError: the operator is another one at some of the sizes.
    """
    import torch

    first, count = traces[0], len(traces)
    alone = f"has to differ from the others in {', '.join(_.name for _ in dynamic)} alone"
    for place, each in enumerate(traces, 1):
        named = {label: first.inputs[label].ndim for size in dynamic for label, _ in size.places}
        if any(getattr(each.inputs.get(label), "ndim", None) != rank for label, rank in named.items()):
            raise InputError(f"call {place} {alone}")
    rows = {sizes_of(each.inputs, dynamic): each for each in traces}
    for place, (sizes, each) in enumerate(rows.items(), 1):
        made = resized(first.inputs, dynamic, sizes)
        pairs = [(value, each.inputs.get(label)) for label, value in made.items() if isinstance(value, torch.Tensor)]
        if len(rows) < count or any(getattr(other, "shape", None) != value.shape for value, other in pairs):
            raise InputError(f"call {place} {alone}")
    for sizes in sampled_sizes(dynamic):
        if sizes not in rows:
            rows[sizes] = _at(first, dynamic, sizes)
    every = list(rows.values())
    for sizes, other in rows.items():
        differs = _skeleton(first) != _skeleton(other)
        if what := _difference(first, other) or ("operators, or numbers that are no sizes" if differs else ""):
            raise ProblemError(
                f"{described(first.operator)} has other {what} with {sizes_text(dynamic, sizes)}: give "
                "`dynamic_shapes` ranges without it, or search several calls, `inputs=[[x], [y]]`"
            )
    try:
        general = _general(every)
    except ProblemError as error:
        shown = "; ".join(sizes_text(dynamic, sizes) for sizes in rows)
        raise ProblemError(
            f"{described(first.operator)} with {shown}: {error}: give `dynamic_shapes` ranges without it, or search "
            "each alone"
        ) from None
    names = ["main"] if count == 1 else []
    names += ["_".join(f"{each.name}_{size}" for each, size in zip(dynamic, sizes, strict=True)) for sizes in rows][
        len(names) :
    ]
    shapes = "".join(
        f'    "{name}": dict({sizes_text(dynamic, sizes)}),\n' for name, sizes in zip(names, rows, strict=True)
    )
    timed = "".join(f'    "{name}": {float(weight)!r},\n' for name, weight in zip(names, weights, strict=False))
    head, _, body = first.problem.source.partition(_REFERENCE)[0].partition(_INPUTS)
    lines = body.splitlines()  # the first one opens a list
    tensors = {label: value for label, value in first.inputs.items() if isinstance(value, torch.Tensor)}
    for place, (label, value) in enumerate(tensors.items(), 1):
        if (text := shape_text(label, value, dynamic)) or is_position(value):
            # Where sizes differ, a position that is drawn below one of them would lie outside of another.
            lines[place] = drawn_line(label, value, text)
    source = (
        head.replace(_SHAPES, f"shapes = {{\n{shapes}}}\n" + (f"timed = {{\n{timed}}}\n" if count > 1 else ""))
        + f"\ndef inputs(generator, {', '.join(each.name for each in dynamic)}):\n"
        + "\n".join(lines)
        + _REFERENCE
        + general
    )

    def is_same(sizes: tuple[int, ...]) -> bool:
        try:
            other = _at(first, dynamic, sizes)
            return not _difference(first, other) and _general([*every, other]) == general
        except ProblemError:
            return False

    covered = coverage(first, source, dynamic, list(rows), is_same)
    return replace(_joined(every, source), dynamic=dynamic, covered=covered)


def _at(first: Traced, dynamic: Sequence[DynamicSize], sizes: Sequence[int]) -> Traced:
    """A trace of the same operator with inputs of other sizes."""
    operator: Any = first.operator
    positional, named = by_place_and_name(operator, resized(first.inputs, dynamic, sizes))
    if named:
        named |= dict(zip(signature_of(operator).parameters, positional, strict=False))  # type: ignore[union-attr]
    try:
        return trace(operator, named or positional)
    except ProblemError as error:
        raise ProblemError(f"with {sizes_text(dynamic, sizes)}: {error}{_beyond(first, dynamic, sizes)}") from None


def _beyond(first: Traced, dynamic: Sequence[DynamicSize], sizes: Sequence[int]) -> str:
    """That integers are the same at every size, where they may have been indices of a dimension that is smaller now."""
    import torch

    for label, value in first.inputs.items():
        if isinstance(value, torch.Tensor) and value.dtype in (torch.int32, torch.int64) and value.numel():
            largest = int(value.max())
            for each, size, own in zip(dynamic, sizes, sizes_of(first.inputs, dynamic), strict=True):
                if size <= largest < own:
                    return (
                        f". The integers of {label!r} go up to {largest} at every size: if they are indices of a "
                        f"dimension of {each.name}, give that a `min` of {largest + 1}"
                    )
    return ""


def _joined(traces: Sequence[Traced], source: str) -> Traced:
    """The first trace, with the text of all of them and their inputs; their mode, if it matters to one of them."""
    problem = replaced(traces[0].problem, source=source, sha256=sha256(source))
    strictest = max(traces, key=lambda each: any(row["training"] is not None for _, row in each.settings))
    further = tuple(other.inputs for other in traces[1:])
    return replace(traces[0], problem=problem, settings=strictest.settings, further=further)


def _difference(first: Traced, other: Traced) -> str:
    """What two calls must have in common, and have not; empty if nothing."""
    import torch

    if list(first.inputs) != list(other.inputs):
        return "arguments"
    for name, value in first.inputs.items():
        if type(value) is not type(other.inputs[name]):
            return f"types of input {name!r}"
    if first.structure != other.structure:
        return "outputs"
    alike = len(first.constants) == len(other.constants) and all(
        torch.equal(left, right) for left, right in zip(first.constants, other.constants, strict=True)
    )
    return "" if alike else "constants (tensors that the operator makes of sizes)"


def _names(traces: Sequence[Traced]) -> list[str]:
    """Of the calls: the sizes of the first input that differs between them."""
    import torch

    sizes = [
        ["x".join(map(str, value.shape)) for value in each.inputs.values() if isinstance(value, torch.Tensor)]
        for each in traces
    ]
    places = range(len(sizes[0]))
    differing = next((place for place in places if len({row[place] for row in sizes}) == len(traces)), None)
    if differing is None:
        return [f"call_{number}" for number in range(1, len(traces) + 1)]
    return [row[differing] or "scalar" for row in sizes]


def _general(traces: Sequence[Traced]) -> str:
    """The one text that is the reference of each trace at its call.

    Raises:
        ProblemError: they differ in more than numbers that follow from sizes.
    """
    references = [each.problem.source.partition(_REFERENCE)[2] for each in traces]
    numbers = [list(map(int, _NUMBER.findall(text))) for text in references]
    if len(set(map(_skeleton, traces))) > 1:
        raise ProblemError("the calls take other ways through the operator, not only other sizes")
    columns = iter(list(zip(*numbers, strict=True)))
    dimensions = list(_dimensions(traces))

    def expression(match: re.Match[str]) -> str:
        values = next(columns)
        return match[0] if len(set(values)) == 1 else _expression(values, dimensions)

    return _NUMBER.sub(expression, references[0])


def _skeleton(traced: Traced) -> str:
    """The reference without its whole numbers."""
    return _NUMBER.sub("#", traced.problem.source.partition(_REFERENCE)[2])


def _dimensions(traces: Sequence[Traced]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every size of an input that differs between the calls, as an expression and by call."""
    import torch

    from .drawn_inputs import identifier

    for name, value in traces[0].inputs.items():
        if isinstance(value, torch.Tensor):
            shapes = [each.inputs[name].shape for each in traces]
            if len({len(shape) for shape in shapes}) == 1:
                for axis, sizes in enumerate(zip(*shapes, strict=True)):
                    if len(set(sizes)) > 1:
                        yield f"{identifier(name)}.shape[{axis}]", sizes


def _expression(values: tuple[int, ...], dimensions: Sequence[tuple[str, tuple[int, ...]]]) -> str:
    """What gives ``values`` call by call: a size or a product of two; or one times, over, plus or minus a number."""
    products = [
        (f"{left} * {right}", tuple(a * b for a, b in zip(sizes, others, strict=True)))
        for place, (left, sizes) in enumerate(dimensions)
        for right, others in dimensions[place + 1 :]
    ]
    for text, sizes in (*dimensions, *products):
        if sizes == values:
            return text
        for sign, apart in (("*", _quotient(values, sizes)), ("//", _quotient(sizes, values))):
            if apart:
                return f"({text} {sign} {apart})"
        if len(steps := {value - size for value, size in zip(values, sizes, strict=True)}) == 1:
            return f"({text} + {step})" if (step := steps.pop()) > 0 else f"({text} - {-step})"
    shown = ", ".join(map(str, values))
    raise ProblemError(f"a number in the operator's graph is {shown}, and no size says why")


def _quotient(values: Sequence[int], sizes: Sequence[int]) -> int:
    """What each of ``values`` is of its size, where that is one whole number; else 0."""
    pairs = list(zip(values, sizes, strict=True))
    if any(size == 0 or value % size for value, size in pairs):
        return 0
    quotients = {value // size for value, size in pairs}
    return quotients.pop() if len(quotients) == 1 else 0
