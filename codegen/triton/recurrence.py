"""Recurrences in Triton: a program takes all steps for its points one after the other, with the states in registers."""

from ..ir.loops import RecurrentKernel
from ..ir.poly import ZERO, product
from ..ir.printing import python_poly
from ..ir.scalar import Scalar
from .launch import TritonKernel
from .prepare import Sizes
from .scan import special_kernel
from .scope import INSIDE, OUTSIDE, Axis, TritonScope, pname
from .text import TYPES, TritonNeeds
from .tunables import GpuSettings

_LARGEST = 128
"""Points of a program, one a thread; fewer where there are too few programs for the device."""
_STAGES = 4
"""Steps whose inputs are read ahead."""


def recurrence_kernel(kernel: RecurrentKernel, sizes: Sizes, settings: GpuSettings, needs: TritonNeeds) -> TritonKernel:
    """The kernel of a recurrence: one program for a block of points."""
    return _Recurrence(kernel, sizes, settings, needs).printed()


class _Recurrence:
    def __init__(self, kernel: RecurrentKernel, sizes: Sizes, settings: GpuSettings, needs: TritonNeeds) -> None:
        needs.floats = {}
        self.kernel, self.settings, self.needs = kernel, settings, needs
        names = tuple(f"i{d}" for d in range(len(kernel.dims)))
        self.step = f"i{len(kernel.dims)}"
        self.block = settings.block or _LARGEST
        while (
            not settings.block
            and self.block > 32
            and sizes.of(product(kernel.dims)) < self.block * settings.multiprocessors
        ):
            self.block //= 2
        # What depends on the points alone is computed once, ahead of all steps.
        self.scope = TritonScope(needs, [Axis("cols", names, kernel.dims, "col_mask")], {self.step})
        self.states = [f"state{number}" for number in range(len(kernel.states))]
        for name, state in zip(self.states, kernel.states, strict=True):
            self.scope.results[state.name] = name
            self.scope.inner.add(f"@{state.name}")
            self.scope.taken |= {name, f"{name}_next"}

    def printed(self) -> TritonKernel:
        """Text and launch."""
        kernel, scope = self.kernel, self.scope
        points = product(kernel.dims)
        out = f"{pname(kernel.buffer.name)}_out"
        head = [
            f"cols = tl.program_id(0).to(tl.int64) * {self.block} + tl.arange(0, {self.block})",
            f"col_mask = cols < {scope.index(points)}",
        ]
        scope.count([state.start for state in kernel.states])
        start = [f"{name} = {self._block(state.start)}" for name, state in zip(self.states, kernel.states, strict=True)]
        first = []
        if kernel.first is not None:
            scope.count([kernel.first])
            value, place = self._block(kernel.first), kernel.offset.substitute({self.step: ZERO})
            first = [f"tl.store({out} + {scope.offset(place)}, {value}, mask=col_mask)"]
        before = [*scope.lines[OUTSIDE], *start, *first]
        scope.lines[OUTSIDE] = []
        scope.count([kernel.value, *(state.after for state in kernel.states)])
        stored = f"tl.store({out} + {scope.offset(kernel.offset)}, {self._block(kernel.value)}, mask=col_mask)"
        after = [
            f"{name}_next = {self._block(state.after)}" for name, state in zip(self.states, kernel.states, strict=True)
        ]
        begin, end = kernel.steps
        loop = [
            f"for step in tl.range({begin}, {end}, num_stages={self.settings.stages or _STAGES}):",
            f"    {self.step} = tl.cast(step, tl.int64)",
            *(f"    {line}" for line in [*scope.lines[INSIDE], stored, *after]),
            *(f"    {name} = {name}_next" for name in self.states),
        ]
        body = [*head, *before, *scope.lines[OUTSIDE], *loop]
        grid = f"_cdiv({python_poly(points)}, {self.block})"
        warps = self.settings.warps or max(1, self.block // 32)
        return special_kernel(kernel, grid, body, self.needs, "a recurrence", warps, kernel.offset)

    def _block(self, value: Scalar) -> str:
        """A value for every point of the block, of its own type: states keep theirs from step to step."""
        return f"tl.broadcast_to(tl.cast({self.scope.typed(value)}, {TYPES[value.dtype]}), [{self.block}])"
