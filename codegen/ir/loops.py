"""LoopIR: a generated kernel as loops over index variables. The same for C++ and Triton.

A :class:`Kernel` has an iteration space of dimensions with sizes. *Row* kernels reduce some of them: for every point of
the other (outer) dimensions they make one or more passes over the reduced (inner) ones; every pass accumulates
reductions and writes elements; between passes stand values of the row. Reductions of row values over all rows
(``level == "full"``) come last. *Pointwise* kernels have one pass and no reductions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from .poly import ZERO, Poly, variable
from .scalar import Scalar, rewriter, walk_all


@dataclass(frozen=True)
class Buffer:
    """A tensor in memory, contiguous."""

    name: str
    dtype: str
    shape: tuple[Poly, ...]
    zeroed: bool = False
    """Whether it holds zeros before a kernel writes it."""


@dataclass(frozen=True)
class Accumulation:
    """A reduction inside a kernel."""

    name: str
    """The node it belongs to."""
    op: str
    """``sum``, ``prod``, ``max``, ``min``, ``any``, ``all``, ``argmax`` or ``argmin``."""
    body: Scalar
    """What is accumulated at one point of the iteration space."""
    dtype: str
    """dtype of the accumulator."""
    level: str
    """``row``: over the inner dimensions; ``full``: over the outer ones, of row values."""


@dataclass(frozen=True)
class Store:
    """A value that a kernel writes."""

    buffer: Buffer
    offset: Poly
    value: Scalar
    level: str
    """``element`` (every point), ``row`` (every outer point) or ``full`` (once)."""


@dataclass
class Kernel:
    """One generated function of the kind ``loops``."""

    name: str
    rank: int
    """How many operators left to PyTorch come before it."""
    dims: tuple[Poly, ...]
    """Sizes of the iteration space, none of them the number 1."""
    reduced: frozenset[int] | None = None
    """Inner dimensions; None for a pointwise kernel."""
    accumulations: dict[str, Accumulation] = field(default_factory=dict)
    stores: dict[str, Store] = field(default_factory=dict)
    """By node."""
    nodes: list[str] = field(default_factory=list)
    """Graph nodes it computes, for comments."""

    @property
    def variables(self) -> tuple[Poly, ...]:
        """The loop variables, outermost first."""
        return tuple(variable(f"i{d}") for d in range(len(self.dims)))

    @property
    def bounds(self) -> dict[str, Poly]:
        """Exclusive upper bound of every loop variable."""
        return {f"i{d}": size for d, size in enumerate(self.dims)}

    @property
    def outer(self) -> tuple[int, ...]:
        """Dimensions that are not reduced; all of them in a pointwise kernel."""
        return tuple(d for d in range(len(self.dims)) if d not in (self.reduced or ()))

    @property
    def inner(self) -> tuple[int, ...]:
        """Dimensions that are reduced."""
        return tuple(sorted(self.reduced or ()))

    def pass_of(self, value: Scalar) -> int:
        """The first pass in which ``value`` is known: one after the last row reduction it needs."""
        needed = [a for a in self.accumulations.values() if f"@{a.name}" in value.names and a.level == "row"]
        return max((self.pass_of(a.body) + 1 for a in needed), default=0)

    def rewritten(self, change: Callable[[Scalar], Scalar | None]) -> Self:
        """The same with every value changed as :func:`.rewrite` does."""
        changed = rewriter(change)
        return replace(
            self,
            accumulations={n: replace(a, body=changed(a.body)) for n, a in self.accumulations.items()},
            stores={n: replace(s, value=changed(s.value)) for n, s in self.stores.items()},
        )

    def roots(self) -> list[Scalar]:
        """Everything that is computed."""
        return [a.body for a in self.accumulations.values()] + [s.value for s in self.stores.values()]


@dataclass
class SpecialKernel:
    """A generated function that is no plain loop nest: its ``kind`` says which algorithm.

    - ``scan``: running sum of ``value`` over dimension ``along`` for every point of the others, into ``buffer``;
    - ``product``: running product, in the same way;
    - ``offsets``: exclusive running sum of ``value`` over ``dims[0]``, the total behind it, into ``buffer``;
    - ``recurrence``: :class:`RecurrentKernel`; ``steps``: :class:`SteppedKernel`; ``scatter``:
      :class:`ScatterKernel`; ``attention``: :class:`AttentionKernel`;
    - ``compact``: ``value`` wherever ``mask`` holds, in order, into ``buffer``, whose first size is the number kept.
    """

    name: str
    rank: int
    kind: str
    dims: tuple[Poly, ...]
    value: Scalar
    buffer: Buffer
    mask: Scalar | None = None
    trailing: int = 0
    """``compact``: how many last dimensions are copied whole for a kept position."""
    along: int = -1
    """``scan`` and ``product``: the dimension; on a GPU the last."""
    nodes: list[str] = field(default_factory=list)

    @property
    def variables(self) -> tuple[Poly, ...]:
        """The loop variables, outermost first."""
        return tuple(variable(f"i{d}") for d in range(len(self.dims)))

    @property
    def buffers(self) -> list[Buffer]:
        """What it writes."""
        return [self.buffer]

    def roots(self) -> list[Scalar]:
        """Everything that is computed."""
        return [self.value] if self.mask is None else [self.mask, self.value]


@dataclass(frozen=True)
class State:
    """What one step of a recurrence leaves for the next, for every point of the kernel's dimensions."""

    name: str
    """The ``result`` that is its value before a step."""
    dtype: str
    start: Scalar
    after: Scalar


@dataclass
class RecurrentKernel(SpecialKernel):
    """Steps that are taken one after the other at every point of ``dims``: of kind ``recurrence``.

    ``value`` is what a step stores at ``offset``; the step is the variable behind those of ``dims``.
    """

    steps: tuple[int, int] = (0, 0)
    """The first step, and one after the last."""
    states: tuple[State, ...] = ()
    offset: Poly = ZERO
    first: Scalar | None = None
    """What is stored for step 0, where that is none of ``steps``."""

    @property
    def variables(self) -> tuple[Poly, ...]:
        """The loop variables, the step last."""
        return tuple(variable(f"i{d}") for d in range(len(self.dims) + 1))

    def roots(self) -> list[Scalar]:
        """Everything that is computed."""
        first = [] if self.first is None else [self.first]
        return [*first, self.value, *(value for state in self.states for value in (state.start, state.after))]


@dataclass(frozen=True)
class Part:
    """What a step computes and keeps: ``value`` at every point of ``over``, summed over ``summed``."""

    name: str
    """Of the ``local`` that it is; empty: the kernel's result."""
    dtype: str
    over: tuple[str, ...]
    """Variables of :attr:`SteppedKernel.axes`, outermost first."""
    value: Scalar
    summed: tuple[str, ...] | None = None
    """None: nothing is summed, and the value replaces what was there."""
    is_wide: bool = False
    """Whether it has a value for each point along the last of the kernel's dimensions, which vectors go along."""


def vector_of(part: Part, wide: str) -> str:
    """The variable that vectors go along in ``part``, empty if it is one number; ``wide`` is that of wide parts."""
    loops = (*(part.summed or ()), *part.over)
    return wide if part.is_wide else loops[-1] if loops else ""


@dataclass
class SteppedKernel(SpecialKernel):
    """Steps that sum over dimensions, one after the other for every point of ``dims``: of kind ``steps``.

    The step is the variable behind those of ``dims``, further ones are in ``axes``.
    """

    steps: tuple[int, int] = (0, 0)
    """The first step, and one after the last."""
    axes: dict[str, Poly] = field(default_factory=dict)
    """Sizes of what no point has alone, by variable."""
    is_wide: bool = False
    """Whether vectors go along the last of ``dims``; else along the last variable of each part."""
    shared: tuple[Part, ...] = ()
    """What no step and no point changes."""
    kept: tuple[Part, ...] = ()
    """What no step changes."""
    start: tuple[Part, ...] = ()
    """The states before the first step."""
    parts: tuple[Part, ...] = ()
    """What a step computes, in order; ``offset`` says where its result is stored."""
    following: dict[str, str] = field(default_factory=dict)
    """States that are copied at the end of a step, by their names: from where."""
    first: Part | None = None
    """What is stored for step 0, where that is none of ``steps``."""
    offset: Poly = ZERO
    last: tuple[tuple[Buffer, Poly, Part], ...] = ()
    """States that are stored behind all steps: where, and as what."""

    @property
    def buffers(self) -> list[Buffer]:
        """What it writes."""
        return [self.buffer, *(buffer for buffer, _, _ in self.last)]

    def all_parts(self) -> list[Part]:
        """Everything that it computes."""
        first = [] if self.first is None else [self.first]
        return [*self.shared, *self.kept, *self.start, *first, *self.parts, *(part for _, _, part in self.last)]

    def roots(self) -> list[Scalar]:
        """Everything that is computed."""
        return [part.value for part in self.all_parts()]


@dataclass
class ScatterKernel(SpecialKernel):
    """``value``, at every point of ``dims``, added to what an index says of one dimension: of kind ``scatter``."""

    axis: int = 0
    """The dimension."""
    index: Scalar = field(default_factory=lambda: Scalar("const", "int64", data=0))
    """Where along it, at every point of ``dims``."""
    base: Scalar = field(default_factory=lambda: Scalar("const", "int64", data=0))
    """What it is added to, at every point of the buffer."""

    def roots(self) -> list[Scalar]:
        """Everything that is computed."""
        return [self.index, self.base, self.value]


@dataclass
class AttentionKernel(SpecialKernel):
    """``softmax(value) values`` over the last of ``dims``, the one before the queries: of kind ``attention``.

    ``value`` is a score, made of the sum of ``query`` times ``key`` over ``width``, a ``result``. The variable behind
    those of ``dims`` is the place in a row of ``query``, ``key`` and ``values``.
    """

    query: Scalar = field(default_factory=lambda: Scalar("const", "float32", data=0.0))
    key: Scalar = field(default_factory=lambda: Scalar("const", "float32", data=0.0))
    values: Scalar = field(default_factory=lambda: Scalar("const", "float32", data=0.0))
    width: Poly = ZERO
    out: Poly = ZERO
    """Length of a row of ``values``."""
    is_zero_without_keys: bool = False
    """What a query without keys gets: zeros, else what dividing zeros gives."""
    is_few: bool = False
    """Whether queries are so few that keys are shared out among threads, and read where they are for each query."""

    def roots(self) -> list[Scalar]:
        """Everything that is computed."""
        return [self.query, self.key, self.values, self.value]


def buffers_read(roots: list[Scalar]) -> dict[str, str]:
    """Names and storage dtypes of the buffers that expressions load from, in order of appearance."""
    buffers: dict[str, str] = {}
    for node in walk_all(roots):
        if node.op in ("load", "search"):
            buffers.setdefault(node.data[0], node.data[1])
        elif node.op == "segment":
            buffers.setdefault(node.data, "int64")
    return buffers
