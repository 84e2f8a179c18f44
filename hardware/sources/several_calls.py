"""One operator called with several inputs, as a problem with a timed shape for each.

Every call is traced alone. The texts may differ in whole numbers that are sizes of the inputs, or follow from them:
those become expressions, which give at every call what was traced there.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace as replaced

from ...schemas import ProblemError, sha256
from .from_python import Traced, trace

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_REFERENCE = "\n\ndef reference("
_INPUTS = "\ndef inputs(generator):\n"
_SHAPES = 'shapes = {"main": {}}\n'

Inputs = Sequence[Any] | Mapping[str, Any]


def trace_calls(operator: Callable[..., Any], calls: Sequence[Inputs], weights: Sequence[float] = ()) -> Traced:
    """Write ``operator``, applied to the inputs of each of ``calls``, as a problem.

    Args:
        operator: a function or ``nn.Module``.
        calls: arguments of each call, as :func:`.from_python.trace` takes them; the first is captured.
        weights: of each call in the geometric mean; by default all are alike.

    Raises:
        ProblemError: a call cannot be traced, calls differ in more than sizes, or the weights do not fit.
    """
    weights = tuple(weights) or (1.0,) * len(calls)
    if len(weights) != len(calls) or not all(weight > 0 for weight in weights):
        raise ProblemError(f"{len(calls)} calls, weights {list(weights)}: give a number above 0 for each call")
    traces = [trace(operator, inputs) for inputs in calls]
    if len(traces) == 1:
        return traces[0]
    first = traces[0]
    for place, other in enumerate(traces[1:], 2):
        if what := _difference(first, other):
            raise ProblemError(f"call {place} has other {what} than call 1: search it alone")
    head, _, reference = first.problem.source.partition(_REFERENCE)
    references = [reference, *(other.problem.source.partition(_REFERENCE)[2] for other in traces[1:])]
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
        + _general(references, traces)
    )
    return Traced(
        replaced(first.problem, source=source, sha256=sha256(source)),
        operator,
        first.inputs,
        first.names,
        first.constants,
        first.settings,
        first.parts,
        first.structure,
        tuple(other.inputs for other in traces[1:]),
    )


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


def _general(references: Sequence[str], traces: Sequence[Traced]) -> str:
    """The one text that is each of ``references`` at its call.

    Raises:
        ProblemError: they differ in more than numbers that follow from sizes.
    """
    skeletons = {_NUMBER.sub("#", text) for text in references}
    numbers = [list(map(int, _NUMBER.findall(text))) for text in references]
    if len(skeletons) > 1:
        raise ProblemError("the calls take other ways through the operator, not only other sizes: search each alone")
    columns = iter(list(zip(*numbers, strict=True)))
    dimensions = list(_dimensions(traces))

    def expression(match: re.Match[str]) -> str:
        values = next(columns)
        return match[0] if len(set(values)) == 1 else _expression(values, dimensions)

    return _NUMBER.sub(expression, references[0])


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
    raise ProblemError(f"a number in the operator's graph is {shown}, and no size says why: search each call alone")


def _quotient(values: Sequence[int], sizes: Sequence[int]) -> int:
    """What each of ``values`` is of its size, where that is one whole number; else 0."""
    pairs = list(zip(values, sizes, strict=True))
    if any(size == 0 or value % size for value, size in pairs):
        return 0
    quotients = {value // size for value, size in pairs}
    return quotients.pop() if len(quotients) == 1 else 0
