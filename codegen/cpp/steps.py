"""C++ for recurrences whose steps sum over dimensions: a thread takes all steps for its points and keeps states."""

from collections.abc import Iterable, Sequence

from ..ir.loops import Part, SteppedKernel, vector_of
from ..ir.poly import Poly, poly, product, variable
from ..ir.scalar import Scalar, rewrite
from ..ir.tunables import Settings
from .parallel import checking, nest, shares, team, tiled
from .passes_types import indent
from .scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .text import Needs, ctype, index_text, store_text

_TILE = 64
"""Points that a thread takes together along the last dimension: what it keeps for them stays in the first cache."""


def stepped_lines(kernel: SteppedKernel, settings: Settings, needs: Needs) -> list[str]:
    """Statements of the C++ function for steps that sum."""
    return _Steps(kernel, settings, needs).lines()


class _Steps:
    def __init__(self, kernel: SteppedKernel, settings: Settings, needs: Needs) -> None:
        self.kernel, self.settings, self.needs = kernel, settings, needs
        self.dims = [f"i{d}" for d in range(len(kernel.dims))]
        self.step = f"i{len(kernel.dims)}"
        self.wide = self.dims[-1] if kernel.is_wide else ""
        self.outer = self.dims[:-1] if kernel.is_wide else self.dims
        stored = (*kernel.shared, *kernel.kept, *kernel.start, *kernel.parts)
        self.keeps = {part.name: part for part in stored if part.name}

    def lines(self) -> list[str]:
        """The whole function body."""
        kernel = self.kernel
        inside = [part for name, part in self.keeps.items() if part not in kernel.shared]
        begin, end = kernel.steps
        copies = [self._copy(old, new) for old, new in kernel.following.items()]
        body = [
            *self._all((*kernel.kept, *kernel.start)),
            *(self._first(kernel.first) if kernel.first else []),
            f"for (int64_t {self.step} = {begin}; {self.step} < {end}; ++{self.step}) {{",
            *indent([*self._all(kernel.parts), *self._all(copies)]),
            "}",
            *(
                line
                for buffer, place, part in kernel.last
                for line in self._part(part, buffer.name, buffer.dtype, place)
            ),
        ]
        return [
            "int64_t bad = 0;",
            *self._memory(kernel.shared),
            *self._all(kernel.shared),
            *self._parallel([*self._memory(inside)], body),
            "return bad;",
        ]

    def _all(self, parts: Iterable[Part]) -> list[str]:
        buffer = self.kernel.buffer
        return [line for part in parts for line in self._part(part, buffer.name, buffer.dtype, self.kernel.offset)]

    def _first(self, part: Part) -> list[str]:
        lines = [f"const int64_t {self.step} = 0;", *self._all([part])]
        return ["{", *indent(lines), "}"]

    def _copy(self, old: str, new: str) -> Part:
        part = self.keeps[new]
        place = (*part.over, *((self.wide,) if part.is_wide else ()))
        read = Scalar("local", part.dtype, polys=tuple(map(variable, place)), data=new)
        return Part(old, part.dtype, part.over, read, is_wide=part.is_wide)

    def _memory(self, parts: Iterable[Part]) -> list[str]:
        lines = []
        for part in parts:
            kind, size = ctype(part.dtype), self._size(self._count(part))
            self.needs.helper("ks_memory")
            lines.append(f"ks_memory<{kind}> ks_{part.name}_memory({size});")
            lines.append(f"{kind}* const ks_{part.name} = ks_{part.name}_memory.data;")
        return lines

    def _count(self, part: Part) -> Poly:
        return product(self.kernel.axes[name] for name in part.over) * (_TILE if part.is_wide else 1)

    def _size(self, size: Poly) -> str:
        return index_text(size, Scope(self.needs, set(), set(), self.settings.search).text)

    def _place(self, name: str, at: Sequence[Poly]) -> Poly:
        """Where in memory an element of what a step keeps is."""
        part, place = self.keeps[name], poly(0)
        for axis, position in zip(part.over, at, strict=False):
            place = place * self.kernel.axes[axis] + position
        return place * _TILE + variable("j") if part.is_wide else place

    def _items(self, value: Scalar) -> Scalar:
        def change(node: Scalar) -> Scalar | None:
            if node.op != "local":
                return None
            return Scalar("item", node.dtype, polys=(self._place(node.data, node.polys),), data=f"ks_{node.data}")

        return rewrite(value, change)

    def _part(self, part: Part, buffer: str, dtype: str, offset: Poly) -> list[str]:
        """The loops of a part, and what they compute."""
        vector = vector_of(part, self.wide)
        inner = {vector, "j"} if part.is_wide else {vector}
        outside = {*self.dims, self.step, *self.kernel.axes, "j"} - inner
        scope = Scope(self.needs, inner, outside, self.settings.search)
        scope.reserve(self.kernel.roots())
        scope.taken |= {cname(kept.name) for kept in self.kernel.buffers} | {f"{cname(buffer)}_out"}
        value = self._items(part.value)
        scope.count([value])
        text = scope.text(value)
        if part.name:
            place = tuple(map(variable, part.over))
            target = f"ks_{part.name}[{index_text(self._place(part.name, place), scope.text)}]"
        else:
            target, text = f"{cname(buffer)}_out[{index_text(offset, scope.text)}]", store_text(dtype, text, self.needs)
        head, body = [*scope.lines[FUNCTION], *scope.lines[ROW]], scope.lines[ELEMENT]
        if part.summed is None:
            outer = part.over if part.is_wide else part.over[:-1]
            inside = [*head, *self._vector(part, vector, [*body, f"{target} = {text};"])]
            return self._nest(outer, inside)
        if vector in part.summed:
            total = f"const {ctype(part.dtype)} ks_part = {text};"
            inside = [*head, *self._vector(part, vector, [*body, total, "ks_total += ks_part;"], "+:ks_total")]
            lines = [
                f"{ctype(part.dtype)} ks_total = 0;",
                *self._nest(part.summed[:-1], inside),
                f"{target} = ks_total;",
            ]
            return ["{", *indent(lines), "}"]
        zero = self._vector(part, vector, [f"{target} = 0;"])
        inside = [*head, *self._vector(part, vector, [*body, f"{target} += {text};"])]
        outer = part.over if part.is_wide else part.over[:-1]
        return self._nest(outer, [*zero, *self._nest(part.summed, inside)])

    def _vector(self, part: Part, vector: str, body: list[str], sums: str = "") -> list[str]:
        """The innermost loop of a part."""
        if not vector:
            return body
        clauses = [*([f"reduction({sums})"] if sums else []), *checking(body)]
        if part.is_wide:
            loop = nest([("j", "width")], [f"const int64_t {vector} = left + j;", *body])
        else:
            loop = self._nest([vector], body)
        return [" ".join(["#pragma omp simd", *clauses]), *loop]

    def _nest(self, names: Sequence[str], body: list[str]) -> list[str]:
        if not names:
            return ["{", *indent(body), "}"]
        return nest([(name, self._size(self.kernel.axes[name])) for name in names], body)

    def _parallel(self, memory: list[str], body: list[str]) -> list[str]:
        """All points, in parallel; what a thread keeps is its own."""
        kernel, settings = self.kernel, self.settings
        sizes = list(map(self._size, kernel.dims))
        if self.wide:
            body = tiled(sizes[-1], _TILE, body)
        body = nest(zip(self.outer, sizes, strict=False), body)
        if not self.dims:
            return [*memory, *body]
        largest = max((self._count(part).constant or 0 for part in self.keeps.values()), default=0)
        work = self._size(product(kernel.dims) * kernel.steps[1] * max(1, largest))
        return [
            f"#pragma omp parallel {team(work, settings, body)}",
            "{",
            *indent([*memory, f"#pragma omp for{shares(len(self.dims), settings)}", *body]),
            "}",
        ]
