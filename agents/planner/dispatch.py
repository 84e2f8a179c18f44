"""Whether a file that takes another kernel at each timed shape may be faster than every kernel alone. Pure."""

import math
from collections.abc import Sequence

from ...schemas import Intent, MemoryOperator, NodePlanned, SessionOpened
from .state import PlannedNode, PlannerState

LEAST_GAIN = 1.02
"""By so much the best of each shape must be faster than the best kernel: what is less is chance, for it is the best of
many measurements at each shape."""


def dispatch_plan(state: PlannerState) -> NodePlanned | None:
    """The plan of such a file, at the end of a search; None where it is not worth one, or was planned already."""
    nodes = [node for node in state.correct() if not node.inherited and node.shapes]
    if not nodes or state.finishing == "minutes" or state.opened is None:
        return None
    if any(node.plan.intent is Intent.dispatch for node in state.own()):
        return None
    best = nodes[0]
    opened = state.opened
    fastest = {shape.shape: _fastest(nodes, shape.shape, opened) for shape in best.shapes}
    weights = {shape.shape: shape.weight for shape in best.shapes}
    gain = math.fsum(
        weight * (math.log(_speedup(fastest[shape], shape, opened)) - math.log(_speedup(best, shape, opened)))
        for shape, weight in weights.items()
    )
    if math.exp(gain / math.fsum(weights.values())) < LEAST_GAIN:
        return None
    return NodePlanned(
        parent=best.name,
        intent=Intent.dispatch,
        memory=MemoryOperator.combine,
        number=len(state.own()) + 1,
        synthesizer=Intent.dispatch.value,
        kernels={shape: node.name for shape, node in fastest.items()},
    )


def _fastest(nodes: Sequence[PlannedNode], shape: str, opened: SessionOpened) -> PlannedNode:
    return max(nodes, key=lambda node: _speedup(node, shape, opened))


def _speedup(node: PlannedNode, shape: str, opened: SessionOpened) -> float:
    return next((opened.worth(entry.speedup) for entry in node.shapes if entry.shape == shape), 0.0)
