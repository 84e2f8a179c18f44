"""Recurrences: steps one after the other, for tiles of points together, so that vectors run along memory."""

from ..ir.loops import RecurrentKernel
from ..ir.poly import product
from ..ir.scalar import Scalar, rewrite
from ..ir.tunables import Settings
from .parallel import nest, shares, simd, team, tiled
from .passes_types import indent
from .scope import ELEMENT, FUNCTION, ROW, Scope, cname
from .text import Needs, ctype, index_text, store_text

_COSTLY = 4
"""Instructions from which on a value that no step changes is kept for every point of a tile."""


def recurrence_lines(kernel: RecurrentKernel, settings: Settings, needs: Needs) -> list[str]:
    """Statements of the C++ function for a recurrence."""
    return _Recurrence(kernel, settings, needs).lines()


class _Recurrence:
    def __init__(self, kernel: RecurrentKernel, settings: Settings, needs: Needs) -> None:
        self.kernel = kernel
        self.settings = settings
        self.needs = needs
        self.step = f"i{len(kernel.dims)}"
        self.column = f"i{len(kernel.dims) - 1}"
        self.outer = [f"i{d}" for d in range(len(kernel.dims) - 1)]
        self.scope = Scope(needs, {self.step, self.column}, set(self.outer), settings.search)
        self.scope.reserve(kernel.roots())
        self.scope.taken |= {cname(kernel.buffer.name)}
        self.names = [f"state{number}" for number in range(len(kernel.states))]
        for name, state in zip(self.names, kernel.states, strict=True):
            self._keep(state.name, name)
        self.kept: dict[str, Scalar] = {}
        """Values that no step changes, by what is read in their place."""

    def _keep(self, result: str, name: str) -> None:
        self.scope.results[result] = f"{name}[j]"
        self.scope.inner |= {f"@{result}"}
        self.scope.taken |= {name, f"{name}_next"}

    def lines(self) -> list[str]:
        """The whole function body."""
        kernel, tile = self.kernel, self.settings.tile
        kinds = [ctype(state.dtype) for state in kernel.states]
        begin, end = kernel.steps
        declared = [f"{kind} {name}[{tile}];" for kind, name in zip(kinds, self.names, strict=True)]
        start = self._columns([state.start for state in kernel.states], [f"{name}[j] = {{}};" for name in self.names])
        store = f"{cname(kernel.buffer.name)}_out[{index_text(kernel.offset, self.scope.text)}] = {{}};"
        first = (
            [] if kernel.first is None else self._columns([kernel.first], [store], [f"const int64_t {self.step} = 0;"])
        )
        values = [self._without_kept(value) for value in (*(state.after for state in kernel.states), kernel.value)]
        hoisted = [
            line
            for name, value in self.kept.items()
            for line in (f"{ctype(value.dtype)} {name}[{tile}];", *self._columns([value], [f"{name}[j] = {{}};"]))
        ]
        after = [f"const {kind} {name}_next = {{}};" for kind, name in zip(kinds, self.names, strict=True)]
        last = [f"{name}[j] = {name}_next;" for name in self.names]
        steps = [
            f"for (int64_t {self.step} = {begin}; {self.step} < {end}; ++{self.step}) {{",
            *indent(self._columns(values, [*after, store], last=last)),
            "}",
        ]
        tiles = self._tiles([*self.scope.lines[ROW], *declared, *start, *first, *hoisted, *steps])
        return ["int64_t bad = 0;", *self.scope.lines[FUNCTION], *tiles, "return bad;"]

    def _without_kept(self, value: Scalar) -> Scalar:
        def change(node: Scalar) -> Scalar | None:
            varies = self.step in node.names or any(name.startswith("@") for name in node.names)
            if varies or self.column not in node.names or node.cost < _COSTLY:
                return None
            name = next((name for name, other in self.kept.items() if other.key == node.key), f"kept{len(self.kept)}")
            if name not in self.kept:
                self.kept[name] = node
                self._keep(name, name)
            return Scalar("result", node.dtype, data=name)

        return rewrite(value, change)

    def _columns(
        self, values: list[Scalar], statements: list[str], head: list[str] | None = None, last: list[str] | None = None
    ) -> list[str]:
        """A loop over the points of a tile that fills ``statements`` with ``values``."""
        self.scope.enter_elements()
        self.scope.count(values)
        texts = [self.scope.text(value) for value in values]
        texts[-1] = self._stored(statements[-1], texts[-1])
        body = [
            f"const int64_t {self.column} = left + j;",
            *(head or []),
            *self.scope.lines[ELEMENT],
            *(statement.format(text) for statement, text in zip(statements, texts, strict=True)),
            *(last or []),
        ]
        return [
            simd(body),
            "for (int64_t j = 0; j < width; ++j) {",
            *indent(body),
            "}",
        ]

    def _stored(self, statement: str, text: str) -> str:
        is_store = statement.startswith(f"{cname(self.kernel.buffer.name)}_out[")
        return store_text(self.kernel.buffer.dtype, text, self.needs) if is_store else text

    def _tiles(self, body: list[str]) -> list[str]:
        kernel, settings = self.kernel, self.settings
        sizes = [index_text(size, self.scope.text) for size in kernel.dims]
        lines = nest(zip(self.outer, sizes, strict=False), tiled(sizes[-1], settings.tile, body))
        work = index_text(product(kernel.dims) * kernel.steps[1], self.scope.text)
        clauses = f"{shares(len(self.outer) + 1, settings)} {team(work, settings, lines)}"
        return [f"#pragma omp parallel for{clauses}", *lines]
