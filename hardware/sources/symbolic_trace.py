"""At which sizes an operator is the one that a text says.

Both are run with the sizes of a range, as many as there is time for. For the others both are traced with a symbol for
each size. What they ask of a symbol on the way (``x.shape[0] > 50``, a view that has to fit, a broadcast) becomes a
condition. Graphs that are alike, with the same expressions of the symbols, are so wherever all of these hold, but for
what Python asks behind a symbol's back: ``isinstance(n, int)``, the bytes of a storage.
"""

import contextlib
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...schemas import ProblemError
from .call_arguments import by_place_and_name
from .dynamic_shapes import DynamicSize, resized, sizes_text
from .eager_comparison import Comparison
from .from_python import Traced
from .module_state import called, contents_of, parameters_of, restored, settings
from .source_lines import described
from .traced_positions import PositionsAsIndices

_SWEPT = 256
"""Sizes of the ranges that are tried before the search; any other is tried when a call has it."""
_FURTHER = 16
"""Times that sizes are traced for which the first symbols do not stand."""
_SECONDS = 10.0
"""How long operator and text may be run with further sizes, the small ones first."""
_WAYS_OUT = "give `dynamic_shapes` ranges without it, or search several calls, `inputs=[[x], [y]]`"


@dataclass(frozen=True)
class _Symbolic:
    """A trace with symbols for some sizes."""

    graph: list[Any]
    """Its operators with their arguments and the shapes of their results."""
    symbols: list[tuple[Any, int]]
    """Each with the place of its size among the dynamic ones."""
    fixed: list[tuple[int, int]]
    """Places of the other sizes, each with the size."""
    conditions: list[Any]

    def unmet(self, sizes: Sequence[int]) -> Iterator[str]:
        """What does not hold at ``sizes``."""
        import sympy  # type: ignore[import-untyped]

        values = {symbol: sympy.Integer(sizes[place]) for symbol, place in self.symbols}
        yield from (f"size {size}" for place, size in self.fixed if sizes[place] != size)
        yield from (str(each) for each in self.conditions if each.xreplace(values) != sympy.true)


@dataclass
class Coverage:
    """The sizes at which an operator is known to be the one that its text says."""

    traced: set[tuple[int, ...]]
    """Sizes that were traced themselves, or at which both called the same operators."""
    symbolic: list[tuple[_Symbolic, _Symbolic]] = field(default_factory=list)
    """Traces of operator and text that are alike."""

    def __contains__(self, sizes: Any) -> bool:
        return sizes in self.traced or self.meets_conditions(sizes)

    def meets_conditions(self, sizes: tuple[int, ...]) -> bool:
        """Whether all conditions of a trace with symbols hold there."""
        return any(all(next(trace.unmet(sizes), None) is None for trace in pair) for pair in self.symbolic)


def coverage(
    first: Traced,
    text: str,
    dynamic: tuple[DynamicSize, ...],
    traced: Sequence[tuple[int, ...]],
    is_same: Callable[[tuple[int, ...]], bool],
) -> Coverage:
    """Find out at which sizes of the ranges the operator is the reference, or refuse.

    Both are run with each size, or with many of them. Where that leaves sizes out, symbols stand for these.

    Args:
        first: a trace of a call, and its operator.
        text: a problem's, with the reference for all sizes.
        dynamic: the sizes that may differ.
        traced: sizes that were traced themselves; the first are those of ``first``.
        is_same: whether a trace at sizes gives the same text.

    Raises:
        ProblemError: the operator is another one somewhere, or that cannot be known.
    """
    problem: dict[str, Any] = {}
    exec(compile(text, "<problem>", "exec"), problem)
    reference, known = problem["reference"], Coverage(set(traced))
    swept = [*itertools.product(*(_swept(each, round(_SWEPT ** (1 / len(dynamic)))) for each in dynamic))]
    comparison, end = Comparison(first, reference, dynamic, traced[0]), time.monotonic() + _SECONDS
    for sizes in sorted(swept, key=math.prod):
        if sizes in known.traced or time.monotonic() > end:
            continue
        what = comparison.difference(sizes)
        if what and not is_same(sizes):
            raise ProblemError(
                f"{described(first.operator)} takes another way at {sizes_text(dynamic, sizes)} ({what}): {_WAYS_OUT}"
            )
        if what or comparison.sees_operators:
            known.traced.add(sizes)
    if len(known.traced) < math.prod(each.high - each.low + 1 for each in dynamic):
        _add_symbols(known, first, reference, dynamic, [traced[0], *(each for each in swept if each not in traced)])
    return known


def _add_symbols(
    known: Coverage,
    first: Traced,
    reference: Callable[..., Any],
    dynamic: tuple[DynamicSize, ...],
    swept: Sequence[tuple[int, ...]],
) -> None:
    """Trace both with symbols until their conditions hold at every one of the sizes ``swept``.

    Raises:
        ProblemError: that comes to no end.
    """
    failure, attempts = "", 0
    for sizes in swept:
        if known.meets_conditions(sizes):
            continue
        attempts += 1
        try:
            pair = _symbolic(first, dynamic, sizes), _symbolic(first, dynamic, sizes, reference)
            if pair[0].graph == pair[1].graph:
                known.symbolic.append(pair)
            else:
                failure = failure or "with sizes that are symbols it is another one"
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises for sizes that are symbols
            failure = failure or f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        if attempts <= _FURTHER and sizes in known:
            continue
        asked = next((unmet for pair in known.symbolic[:1] for trace in pair for unmet in trace.unmet(sizes)), "")
        why = f"not {asked}" if asked else failure
        if sizes not in known:
            raise ProblemError(
                f"{described(first.operator)} takes another way at {sizes_text(dynamic, sizes)} ({why}), or that "
                f"cannot be known: {_WAYS_OUT}"
            )
        raise ProblemError(
            f"{described(first.operator)} makes a number of a size ({why}), as `len(x)`, `int()`, `print` and text do: "
            f"what it does is known only for sizes with which it was run, and those are {_SWEPT}, or as many as take "
            f"{_SECONDS:.0f} s. Use `x.shape`, take the text out, or give `dynamic_shapes` a smaller range"
        )


def _swept(dynamic: DynamicSize, count: int) -> list[int]:
    """All sizes of a range, or ``count`` of them: the smallest, and others up to its end."""
    low, span = dynamic.low, dynamic.high - dynamic.low
    if span < count:
        return [*range(low, dynamic.high + 1)]
    spaced = {low + span * at // (count // 2) for at in range(1, count // 2 + 1)}
    return sorted({*range(low, low + count - count // 2), *spaced})


def _symbolic(
    first: Traced, dynamic: Sequence[DynamicSize], sizes: tuple[int, ...], reference: Callable[..., Any] | None = None
) -> _Symbolic:
    """Trace the operator, or its ``reference``, with symbols for ``sizes``; 1 is no symbol, since it broadcasts."""
    import sympy
    import torch
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    operator = first.operator
    assert operator is not None
    # No size stands for another, and 0 and 1 are sizes like others: that they are not is a condition where it is asked.
    environment = ShapeEnv(duck_shape=False, specialize_zero_one=False)
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    places = {place: at for at, each in enumerate(dynamic) for place in each.places if sizes[at] > 1}
    inputs = resized(first.inputs, dynamic, sizes)
    symbols, fakes = [], {}
    for label, value in inputs.items():
        if isinstance(value, torch.Tensor):
            kinds = [DimDynamic.DYNAMIC if (label, axis) in places else DimDynamic.STATIC for axis in range(value.ndim)]
            context = StatelessSymbolicContext(dynamic_sizes=kinds)
            fake = mode.from_tensor(value, source=ConstantSource(f"input_{label}"), symbolic_context=context)
            symbols += [
                (fake.shape[axis].node.expr, places[label, axis])
                for axis in range(value.ndim)
                if (label, axis) in places
            ]
            fakes[label] = fake
    parameters = parameters_of(operator)
    held = [mode.from_tensor(value, static_shapes=True) for value in first.parameters]

    def flat(*arguments: Any) -> Any:
        call = {**inputs, **dict(zip(fakes, arguments, strict=False))}
        return called(
            operator, *by_place_and_name(operator, call), dict(zip(parameters, arguments[len(fakes) :], strict=False))
        )

    before, contents = settings(operator), contents_of(operator)
    try:
        with mode, PositionsAsIndices(), _printed_as_numbers(), torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = make_fx(reference or flat, pre_dispatch=True, _allow_non_fake_inputs=True)(*fakes.values(), *held)
    finally:
        restored(operator, before, contents)
    fixed = [(at, size) for at, size in enumerate(sizes) if size <= 1]
    shared = {symbol: sympy.Symbol(dynamic[place].name, integer=True, positive=True) for symbol, place in symbols}
    operators = _operators(graph, len(fakes) + len(parameters), shared)
    # Last: what compares sizes of the graph asks symbols as well.
    conditions = [guard.expr for guard in environment.guards]
    conditions += [each.expr for later in environment.deferred_runtime_asserts.values() for each in later]
    return _Symbolic(operators, symbols, fixed, conditions)


@contextlib.contextmanager
def _printed_as_numbers() -> Iterator[None]:
    """Symbols are printed as the numbers that they stand for, which is a condition: a text may be a key of a table."""
    import torch

    kinds: dict[Any, type] = {torch.SymInt: int, torch.SymFloat: float}
    printed = {kind: kind.__repr__ for kind in kinds}
    for kind, number in kinds.items():
        kind.__repr__ = lambda symbol, number=number: repr(number(symbol))
    try:
        yield
    finally:
        for kind, method in printed.items():
            kind.__repr__ = method


def _operators(module: Any, held: int, shared: dict[Any, Any]) -> list[Any]:
    """The operators of a graph, each with its arguments and the shapes of its results; sizes as expressions.

    Args:
        module: the graph, whose first ``held`` arguments are inputs, parameters and buffers; constants follow, be they
            arguments or attributes.
        held: how many.
        shared: by symbol the one that stands for the same size in every input.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    names: dict[Any, str] = {}
    constants: dict[str, int] = {}
    rows: list[Any] = []

    def argument(value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            return names.get(value) or shown(value.meta["val"])
        return str(value)

    def shown(size: Any) -> str:
        return str(size.node.expr.xreplace(shared)) if isinstance(size, torch.SymInt) else str(size)

    def arguments(values: Any) -> str:
        return str(torch.fx.node.map_aggregate(values, argument))

    for node in module.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder":
            names[node] = f"argument {len(names)}"
        elif node.op == "get_attr":
            names[node] = f"argument {held + constants.setdefault(node.target, len(constants))}"
        elif isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float):
            continue  # its expression stands where it is used
        elif node.target is torch.ops.aten.slice.Tensor and value.shape == node.args[0].meta["val"].shape:
            names[node] = names[node.args[0]]  # `x[:, None]` slices a symbol, and does not slice a number
        else:
            results = [[*map(shown, leaf.shape)] for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
            rows.append((str(node.target), arguments(node.args), arguments(node.kwargs), results))
            names[node] = f"result {len(rows)}"
    return rows
