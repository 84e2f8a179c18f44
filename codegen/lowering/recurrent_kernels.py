"""The kernel of a recurrence: what a step computes of the states before it, as expressions."""

from collections.abc import Mapping

from ...schemas import Node
from ..ir.build import Unsupported, cast, compute_dtype
from ..ir.loops import Buffer, RecurrentKernel, State
from ..ir.poly import Poly, poly
from ..ir.scalar import Scalar
from .lower import Lowering
from .recurrences import recurrence_of
from .views import Index, linear, shape_of, spread, squeezed


def recurrent_kernel(node: Node, nodes: Mapping[str, Node], name: str, rank: int) -> RecurrentKernel:
    """A kernel that computes nothing yet, for the recurrence ``node``."""
    recurrence = recurrence_of(node)
    shape = shape_of(nodes[recurrence.parts[1]])
    dims, dtype = squeezed(shape), node.values[0].dtype
    buffer = Buffer(node.name, dtype, shape_of(node))
    kernel = RecurrentKernel(name, rank, "recurrence", dims, Scalar("const", dtype, data=0), buffer)
    kernel.steps = recurrence.begin, recurrence.count
    *points, step = kernel.variables
    at = list(spread(shape, points))
    place = step if recurrence.direction > 0 else poly(recurrence.count - 1) - step
    at[recurrence.dim] = at[recurrence.dim] + place * shape[recurrence.dim]
    kernel.offset = linear(at, buffer.shape)
    kernel.nodes = [node.name, *recurrence.own]
    return kernel


def fill(kernel: RecurrentKernel, node: Node, outside: Lowering) -> None:
    """Give ``kernel`` its expressions; ``outside`` lowers what is there before the first step.

    Raises:
        Unsupported: a step is not the same for every point, or another one's state is read.
    """
    recurrence, nodes = recurrence_of(node), outside.nodes
    *points, step = kernel.variables
    (name,) = step.names
    made, names = recurrence.step(nodes, name)

    def before(state: Node, at: Index) -> Scalar:
        if at != spread(shape_of(state), points):
            raise Unsupported(node.name, "a step reads the state of another point")
        return Scalar("result", compute_dtype(state.values[0].dtype), data=state.name)

    inside = Lowering({**nodes, **made}, outside.stored, before, outside.bounds)

    def at(source: str) -> tuple[str, Index]:
        return source, spread(shape_of(nodes[source]), points)

    def value(source: str) -> Scalar:
        return inside.element(names[source], at(source)[1])

    dtype = compute_dtype(node.values[0].dtype)
    kernel.value = cast(value(recurrence.parts[1]), dtype)
    if recurrence.begin:
        kernel.first = cast(outside.element(*at(recurrence.parts[0])), dtype)
    states = []
    for state, after, start in zip(recurrence.states, recurrence.after, recurrence.start, strict=True):
        kind = compute_dtype(nodes[state].values[0].dtype)
        first = cast(outside.element(*at(start)), kind)
        states.append(State(names[state], kind, first, cast(value(after), kind)))
    kernel.states = tuple(states)


def bounds_of(kernel: RecurrentKernel) -> dict[str, Poly]:
    """Exclusive upper bound of every loop variable."""
    return {f"i{d}": size for d, size in enumerate((*kernel.dims, poly(kernel.steps[1])))}
