"""Which values of a recurrence's steps are computed once and kept: no step, or only an outer loop, changes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..ir.loops import Part, vector_of
from ..ir.poly import variable
from ..ir.scalar import Scalar, rewrite
from .points import Points

_COSTLY, _COSTLY_IN_STEP = 4, 8
"""Instructions from which on a value is kept that no step changes, or that not all loops around it change."""


@dataclass
class KeptValues:
    """Takes out of a kernel's parts what is better kept."""

    points: Points
    shared: list[Part] = field(default_factory=list)
    """What neither a step nor a point changes."""
    kept: list[Part] = field(default_factory=list)
    """What no step changes."""
    _reads: dict[str, Scalar] = field(default_factory=dict)
    _made: int = 0

    def without(self, parts: Sequence[Part]) -> list[Part]:
        """The parts of a step, which read what is kept; what is kept for one step alone is a part before its use."""
        result: list[Part] = []
        for part in parts:
            result += self._without(part)
        return result

    def _without(self, part: Part) -> list[Part]:
        inner = (*part.over, *(part.summed or ()), *((self.points.wide,) if part.is_wide else ()))
        vector = vector_of(part, self.points.wide)
        before: list[Part] = []

        def change(node: Scalar) -> Scalar | None:
            if node.op in ("local", "const", "index") or not self._is_kept(node, inner, vector):
                return None
            if node.key not in self._reads:
                order = [name for name in inner if name in node.names and name not in (vector, self.points.wide)]
                order += [vector] if vector in node.names and vector != self.points.wide else []
                is_wide = bool(self.points.wide) and self.points.wide in node.names
                self._made += 1
                made = Part(f"kept{self._made}", node.dtype, tuple(order), node, is_wide=is_wide)
                place = (*order, *((self.points.wide,) if is_wide else ()))
                read = Scalar("local", node.dtype, polys=tuple(map(variable, place)), data=made.name)
                self._reads[node.key] = read
                if self._changes(node):
                    before.extend(self._without(made))
                else:
                    at_points = is_wide or any(name in node.names for name in self.points.free)
                    (self.kept if at_points else self.shared).append(made)
            return self._reads[node.key]

        changed = replace(part, value=rewrite(part.value, change))
        for made in before:
            # What a step computes may be another value where a later part reads it.
            self._reads = {key: read for key, read in self._reads.items() if read.data != made.name}
        return [*before, changed]

    def _is_kept(self, node: Scalar, inner: Sequence[str], vector: str) -> bool:
        fewer = not set(inner) <= node.names
        if self._changes(node):
            return fewer and node.cost >= _COSTLY_IN_STEP
        if node.op == "load" and vector in node.polys[0].names:
            stride = node.polys[0].coefficient(vector)
            return stride is None or stride.constant != 1
        return node.cost >= _COSTLY

    def _changes(self, node: Scalar) -> bool:
        return self.points.step in node.names or any(name.startswith("@") for name in node.names)
