"""Builds the kernel of a recurrence whose steps sum over dimensions: its loops, and the values that a step keeps.

Dimensions that every value of a step has at the place of its own are the kernel's: such points know nothing of each
other. All others are loops inside of a step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from ...hardware.machine.work import refs
from ...schemas import Node
from ..ir.build import Unsupported, cast, compute_dtype
from ..ir.loops import Buffer, Part, SteppedKernel
from ..ir.poly import ONE, ZERO, Poly, poly, variable
from ..ir.scalar import Scalar
from .kept_values import KeptValues
from .lower import Lowering
from .points import Points, Value
from .recurrences import CARRIED, Recurrence, recurrence_of
from .reductions import body_of, describe, finish
from .step_order import in_order
from .step_sums import STEP_SUM
from .views import Index, linear, shape_of, spread

_STEP = "i1000"
"""The step, until it is known how many dimensions the kernel has."""


def stepped_kernel(node: Node, name: str, rank: int) -> SteppedKernel:
    """A kernel that computes nothing yet, for the recurrence ``node``."""
    dtype = node.values[0].dtype
    buffer = Buffer(node.name, dtype, shape_of(node))
    return SteppedKernel(name, rank, "steps", (), Scalar("const", "float32", data=0.0), buffer)


def fill(kernel: SteppedKernel, node: Node, last: Sequence[Node], outside: Lowering) -> None:
    """Give ``kernel`` its loops and expressions.

    Args:
        kernel: made by :func:`stepped_kernel`.
        node: the recurrence.
        last: what is read of its states behind the last step.
        outside: lowers what is there before the first step, with bounds of its own.

    Raises:
        Unsupported: a step is no loop over what it keeps.
    """
    _Step(kernel, node, last, outside).fill()


@dataclass
class _Step:
    kernel: SteppedKernel
    node: Node
    last: Sequence[Node]
    outside: Lowering
    sums: dict[tuple[str, Index], Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recurrence: Recurrence = recurrence_of(self.node)
        self.bounds: dict[str, Poly] = self.outside.bounds  # type: ignore[assignment]
        nodes = self.outside.nodes
        made, names = self.recurrence.step(nodes, _STEP)
        self.locals: dict[str, str] = {}
        """By node of a step: the ``local`` that it reads."""
        for number, state in enumerate(self.recurrence.states):
            self.locals[names[state]] = f"state{number}"
        self.definitions = {}
        for number, after in enumerate(self.recurrence.after):
            name = names.get(after, after)
            if name in made and name not in self.locals:
                self.definitions[name] = f"{name}="
                made[f"{name}="] = structs.replace(made[name], name=f"{name}=")
                made[name] = Node(name=name, op="call", target=CARRIED, values=made[name].values)
                self.locals[name] = f"next{number}"
        self.names = names
        self.inside = Lowering({**nodes, **made}, self.outside.stored, self._held, self.bounds)

    def fill(self) -> None:
        """Values of all nodes first, then the loops that they need."""
        kernel, recurrence, nodes = self.kernel, self.recurrence, self.outside.nodes
        part = nodes[recurrence.parts[1]]
        dtype = compute_dtype(part.values[0].dtype)
        out = self._fresh(shape_of(part))
        at = spread(shape_of(part), map(variable, out))
        result = Value("", out, cast(self.inside.element(self.names[recurrence.parts[1]], at), dtype), dtype)
        starts, states = [], []
        for number, state in enumerate(recurrence.states):
            meta = nodes[state].values[0]
            kind = compute_dtype(meta.dtype)
            own = self._fresh(shape_of(nodes[state]))
            place = spread(shape_of(nodes[state]), map(variable, own))
            name = self.names[recurrence.after[number]]
            after = self.inside.element(self.definitions.get(name, name), place)
            if self.locals[name] != f"next{number}":
                raise Unsupported(self.node.name, "two states are one")
            states.append(Value(f"next{number}", own, cast(after, kind), kind))
            start = cast(self.outside.element(recurrence.start[number], place), kind)
            starts.append(Value(f"state{number}", own, start, kind))
        firsts = []
        if recurrence.begin:
            firsts = [Value("", out, cast(self.outside.element(recurrence.parts[0], at), dtype), dtype)]
        values = [*self.sums.values(), *states, result]
        whole = {f"next{number}" for node in self.last for number in node.args[1:]}
        points = Points.of(values, out, self.bounds, _STEP, whole)
        self._shape(points, part, at)
        keeping = KeptValues(points)
        ordered, kernel.following = in_order([points.part(value) for value in values])
        kernel.parts = tuple(keeping.without(ordered))
        kernel.start = tuple(map(points.part, starts))
        kernel.first = next(map(points.part, firsts), None)
        kernel.shared, kernel.kept = tuple(keeping.shared), tuple(keeping.kept)
        kernel.last = tuple(self._stored(points, node, states) for node in self.last)
        kernel.axes = points.axes(kernel.all_parts())
        kernel.nodes = [self.node.name, *recurrence.own]

    def _shape(self, points: Points, part: Node, at: Index) -> None:
        kernel, recurrence = self.kernel, self.recurrence
        kernel.dims, kernel.is_wide = points.dims, points.is_wide
        kernel.steps = recurrence.begin, recurrence.count
        place = list(at)
        step = variable(_STEP)
        here = step if recurrence.direction > 0 else poly(recurrence.count - 1) - step
        place[recurrence.dim] = place[recurrence.dim] + here * shape_of(part)[recurrence.dim]
        kernel.offset = points.renamed(linear(place, kernel.buffer.shape))

    def _stored(self, points: Points, node: Node, states: Sequence[Value]) -> tuple[Buffer, Poly, Part]:
        number = node.args[1]
        assert isinstance(number, int)
        state = states[number]
        buffer = Buffer(node.name, node.values[0].dtype, shape_of(node))
        places = tuple(map(variable, state.at))
        read = Scalar("local", state.dtype, polys=places, data=f"state{number}")
        part = points.part(Value("", state.at, read, state.dtype))
        return buffer, points.renamed(linear(spread(buffer.shape, places), buffer.shape)), part

    def _fresh(self, shape: Iterable[Poly]) -> tuple[str, ...]:
        """Variables for the dimensions that are not 1."""
        names = []
        for size in shape:
            if size != ONE:
                names.append(f"i{100 + len(self.bounds)}")
                self.bounds[names[-1]] = size
        return tuple(names)

    def _held(self, node: Node, at: Index) -> Scalar:
        if node.target == STEP_SUM:
            return self._sum(node, at)
        name = self.locals.get(node.name)
        if name is None:
            return self.outside.reduced(node, at)
        places = tuple(p for p, size in zip(at, shape_of(node), strict=True) if size != ONE)
        return Scalar("local", compute_dtype(node.values[0].dtype), polys=places, data=name)

    def _sum(self, node: Node, at: Index) -> Scalar:
        node = structs.replace(node, target="aten.sum.dim_IntList")
        source = self.inside.nodes[next(refs(node.args))]
        spec, shape = describe(node, source), shape_of(source)
        if (node.name, at) not in self.sums:
            rest = iter(p for d, p in enumerate(at) if not (spec.keepdim and d in spec.dims))
            new = iter(self._fresh(shape[d] for d in spec.dims))
            summed: list[str] = []
            places: list[Poly] = []
            for d, size in enumerate(shape):
                if d not in spec.dims:
                    places.append(next(rest))
                elif size == ONE:
                    places.append(ZERO)
                else:
                    summed.append(next(new))
                    places.append(variable(summed[-1]))
            body = body_of(spec, self.inside.element(source.name, tuple(places)))
            own = dict.fromkeys(name for p in at for name in sorted(p.names) if name in self.bounds)
            name = f"sum{len(self.sums)}"
            self.sums[node.name, at] = Value(name, tuple(own), body, spec.dtype, tuple(summed))
        value = self.sums[node.name, at]
        read = Scalar("local", value.dtype, polys=tuple(map(variable, value.at)), data=value.name)
        return finish(node, read, ONE)
