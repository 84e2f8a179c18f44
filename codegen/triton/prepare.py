"""Splits loop kernels until each is one Triton kernel: parts of long reductions, then the kernel that combines them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..ir.build import load
from ..ir.loops import Accumulation, Buffer, Kernel, Store
from ..ir.poly import Poly, floordiv, minimum, poly, product, variable
from ..ir.scalar import Scalar, rewrite
from ..lowering.along_memory import along_memory, in_store_order
from ..lowering.collapse import collapse
from ..lowering.rejoin import rejoined
from ..lowering.views import linear
from ..lowering.welford import variance_pairs
from .tunables import GpuSettings
from .variance_parts import HELD, about_own_means, moved_together, passes_of


@dataclass
class Tile(Kernel):
    """A kernel whose iteration space may reach beyond the data: ``below[0] < below[1]`` says where it does not."""

    below: tuple[Poly, Poly] | None = None


@dataclass(frozen=True)
class Sizes:
    """Sizes at the main shape: what decides how a kernel is cut."""

    symbols: dict[str, int]
    others: tuple[dict[str, int], ...] = ()
    """At the problem's further shapes, as far as they are known."""

    def most(self, p: Poly) -> int:
        """The largest value of a size polynomial at any shape of the problem."""
        return max(self.of(p), *(Sizes(symbols).of(p) for symbols in self.others), 1)

    def is_backed(self, p: Poly) -> bool:
        """Whether it does not depend on the data."""
        return p.names <= self.symbols.keys()

    def of(self, p: Poly) -> int:
        """Value of a size polynomial; 1 where it depends on the data."""
        from ..ir.printing import python_poly

        try:
            return int(eval(python_poly(p), {"max": max, "min": min}, dict(self.symbols)))
        except NameError:
            return 1


@dataclass(frozen=True)
class Prepared:
    """Kernels in order, and the buffers between them."""

    kernels: list[Tile]
    scratch: list[Buffer]


def power(n: int) -> int:
    """The next power of two."""
    return 1 << max(0, (n - 1).bit_length())


_WIDE_ROWS = 128
"""Rows that a program of a column reduction takes at once, where the settings do not say."""


_HELD_PART, _HELD = 256, 2048
"""Longest columns that are held in registers: the shorter ones always, the others where few programs are at work."""
_HELD_AT_ONCE, HELD_ELEMENTS = 1 << 14, 1 << 17
"""Elements of the longer ones that a program holds, and of any that it may be asked to hold at other sizes."""
BUSY = 4
"""Programs that keep a multiprocessor busy."""
LONG_ROW = 1 << 15
"""Elements from which on a channel's places in one image are summed before the images: as rows, not as columns. Of
64 images of 512 x 512 that takes 3.6 % less, of four of 256 x 256 7 %; of 128 of 64 x 64 8 % more (H200)."""
_WORTH_KEEPING = 4
"""Instructions from which on what is the same for all elements of a row is read from memory instead."""


def prepare(kernel: Kernel, sizes: Sizes, settings: GpuSettings) -> Prepared:
    """Kernels that do what ``kernel`` does.

    Args:
        kernel: rows or pointwise.
        sizes: at the main shape.
        settings: how many parts a reduction is cut into, and rows of a column reduction that a program takes.
    """
    kernel = collapse(rejoined(kernel))
    if kernel.reduced is None:
        return Prepared([_tile(kernel)], [])
    if not kernel.outer:
        kernel = replace(kernel, stores={n: _as_row(s) for n, s in kernel.stores.items()})
    scratch: list[Buffer] = []
    kernels: list[Tile] = []
    for part in _without_full(kernel, scratch):
        kernels += _cut(collapse(along_memory(collapse(part))), sizes, settings, scratch)
    return Prepared(kernels, scratch)


def _as_row(store: Store) -> Store:
    """Where everything is one row, what is written once is written for the row."""
    return replace(store, level="row") if store.level == "full" else store


def _tile(kernel: Kernel, below: tuple[Poly, Poly] | None = None) -> Tile:
    return Tile(
        kernel.name,
        kernel.rank,
        kernel.dims,
        kernel.reduced,
        kernel.accumulations,
        kernel.stores,
        kernel.nodes,
        below,
    )


def unique(kernel: Kernel) -> dict[str, Accumulation]:
    """Accumulations by their own name: several nodes may share one."""
    return {a.name: a for a in kernel.accumulations.values()}


def _named_scratch(a: Accumulation, dims: tuple[Poly, ...], scratch: list[Buffer], kind: str) -> Buffer:
    buffer = Buffer(f"{a.name}_{kind}", a.dtype if a.dtype != "bool" else "int32", dims)
    scratch.append(buffer)
    return buffer


def _read(buffer: Buffer, at: Poly, dtype: str) -> Scalar:
    value = load(buffer.name, buffer.dtype, at)
    return Scalar("ne", "bool", (value, Scalar("const", "int32", data=0))) if dtype == "bool" else value


def _written(value: Scalar) -> Scalar:
    return Scalar("cast", "int32", (value,)) if value.dtype == "bool" else value


def _result(a: Accumulation) -> Scalar:
    dtype = "int64" if a.op.startswith("arg") else a.dtype
    return Scalar("result", dtype, data=a.name)


def _without_full(kernel: Kernel, scratch: list[Buffer]) -> list[Kernel]:
    """Rows write what is reduced over all of them; a second kernel reduces it."""
    full = {n: a for n, a in unique(kernel).items() if a.level == "full"}
    if not full:
        return [kernel]
    dims = tuple(kernel.dims[d] for d in kernel.outer)
    at = linear([kernel.variables[d] for d in kernel.outer], dims)
    inside = linear([variable(f"i{d}") for d in range(len(dims))], dims)
    stores = {n: s for n, s in kernel.stores.items() if s.level != "full"}
    last = {}
    for name, a in full.items():
        buffer = _named_scratch(a, dims, scratch, "rows")
        stores[buffer.name] = Store(buffer, at, _written(a.body), "row")
        last[name] = replace(a, level="row", body=_read(buffer, inside, a.dtype))
    rows = replace(kernel, accumulations={n: a for n, a in unique(kernel).items() if a.level == "row"}, stores=stores)
    ends = {n: replace(s, level="row") for n, s in kernel.stores.items() if s.level == "full"}
    reduced = frozenset(range(len(dims)))
    return [rows, Kernel(f"{kernel.name}_end", kernel.rank, dims, reduced, last, ends, kernel.nodes)]


def _cut(kernel: Kernel, sizes: Sizes, settings: GpuSettings, scratch: list[Buffer]) -> list[Tile]:
    if _is_interleaved(kernel):
        # A batch norm's channel: the images above each other, as columns, or every image's places, as rows.
        last = len(kernel.dims) - 1
        along = sizes.of(kernel.dims[last]) >= LONG_ROW
        return _in_two(kernel, sizes, settings, scratch, lambda d: (d == last) is along)
    count = sizes.of(product(kernel.dims[d] for d in kernel.outer))
    length = sizes.of(product(kernel.dims[d] for d in kernel.inner))
    columns = is_columns(kernel)
    if columns and not settings.split and columns_held(kernel, sizes, settings):
        return [_tile(kernel)]
    programs = -(-count // (settings.rows or _WIDE_ROWS)) if columns else count
    parts = settings.split or _parts(programs, length, columns, 2 * settings.multiprocessors)
    positions = any(a.op.startswith("arg") for a in unique(kernel).values())
    if parts <= 1 or positions or not kernel.inner:
        return [_tile(kernel)]
    tiles: list[Tile] = []
    for pass_kernel in _by_pass(kernel, scratch, settings):
        if pass_kernel.reduced is None:
            tiles.append(_tile(collapse(in_store_order(pass_kernel, sizes.of))))
        else:
            tiles += _in_parts(pass_kernel, sizes, parts, scratch)
    return tiles


def is_columns(kernel: Kernel) -> bool:
    """Whether the last dimension is kept while earlier ones are reduced."""
    return bool(kernel.outer) and bool(kernel.inner) and len(kernel.dims) - 1 not in (kernel.reduced or ())


def memory_passes(kernel: Kernel) -> int:
    """Passes over what lies in memory."""
    return 1 + max(
        (kernel.pass_of(root) for root in kernel.roots() if any(n.op == "load" for n in root.walk())), default=0
    )


def columns_held(kernel: Kernel, sizes: Sizes, settings: GpuSettings) -> int:
    """How many columns a program holds in registers, because they are read again; 0 if it holds none.

    A batch norm of few places takes one kernel then instead of three, and reads them once: of ten images of 14 x 14
    each of the three has less to do than it takes to start.
    """
    length = product(kernel.dims[d] for d in kernel.inner)
    width, count = power(sizes.of(length)), sizes.of(product(kernel.dims[d] for d in kernel.outer))
    is_known = sizes.is_backed(length) and width <= _HELD
    if settings.row == "loop" or not is_known or memory_passes(kernel) == 1:
        return 0
    most = 8192 // width if width <= _HELD_PART else _HELD_AT_ONCE // width
    rows = max(settings.rows or min(most, 128, power(count)), 2)
    if width > _HELD_PART and count > rows * BUSY * settings.multiprocessors:
        return 0
    return rows if sizes.most(length) * rows <= HELD_ELEMENTS else 0


def _is_interleaved(kernel: Kernel) -> bool:
    """Whether of three dimensions or more the last is reduced and the one before it kept: channels of a group."""
    last = len(kernel.dims) - 1
    return len(kernel.inner) > 1 and last in kernel.inner and last - 1 in kernel.outer


def _in_two(
    kernel: Kernel, sizes: Sizes, settings: GpuSettings, scratch: list[Buffer], is_first: Callable[[int], bool]
) -> list[Tile]:
    """Pass by pass: over the reduced dimensions that ``is_first`` names, then over the others."""
    tiles: list[Tile] = []
    for pass_kernel in _by_pass(kernel, scratch, settings):
        if pass_kernel.reduced is None:
            tiles.append(_tile(collapse(in_store_order(pass_kernel, sizes.of))))
            continue
        inner = frozenset(filter(is_first, pass_kernel.inner))
        count = product(pass_kernel.dims[d] for d in sorted(inner))
        own = about_own_means(pass_kernel, pass_kernel.accumulations, count)
        named = replace(pass_kernel, name=f"{pass_kernel.name}_column", accumulations=own)
        first = _tile(replace(named, reduced=inner, stores={}))
        places = {d: place for place, d in enumerate(first.outer)}
        names = {f"i{d}": variable(f"i{places[d]}") for d in pass_kernel.outer}
        kept = replace(pass_kernel, stores={n: _moved(s, names) for n, s in pass_kernel.stores.items()})
        dims = tuple(first.dims[d] for d in first.outer)
        rest = frozenset(places[d] for d in pass_kernel.inner if d not in inner)
        both = _together(kept, first, dims, rest, scratch, count, "column")
        tiles += [*_cut(first, sizes, settings, scratch), both]
    return tiles


def _parts(programs: int, length: int, columns: bool, wanted: int) -> int:
    least = 128 if columns else 8192
    if programs >= wanted // 2 or length < 2 * least:
        return 1
    return max(1, min(-(-4 * wanted // programs), length // least))


def _by_pass(kernel: Kernel, scratch: list[Buffer], settings: GpuSettings) -> list[Kernel]:
    """One kernel for each pass; what a pass found is read from memory by those after it."""
    pass_of = passes_of(kernel, variance_pairs(kernel) if settings.variance == "welford" else [])
    dims = tuple(kernel.dims[d] for d in kernel.outer)
    at = linear([kernel.variables[d] for d in kernel.outer], dims)
    accumulations = unique(kernel)
    known: dict[str, Scalar] = {}

    def seen(value: Scalar) -> Scalar:
        return rewrite(value, lambda node: known.get(node.key))

    kernels: list[Kernel] = []
    levels = {n: pass_of(_result(a)) - 1 for n, a in accumulations.items()}
    stores = {n: (s, pass_of(s.value)) for n, s in kernel.stores.items()}
    for number in range(max([*levels.values(), *(p for _, p in stores.values())], default=0) + 1):
        written = {
            n: replace(s, value=seen(s.value)) for n, (s, p) in stores.items() if p == number and s.level != "row"
        }
        if written:
            name = f"{kernel.name}_write{number}"
            kernels.append(Kernel(name, kernel.rank, kernel.dims, None, {}, written, kernel.nodes))
        now = {n: replace(a, body=seen(a.body)) for n, a in accumulations.items() if levels[n] == number}
        if not now:
            continue
        ends = {
            n: replace(s, value=seen(s.value))
            for n, (s, p) in stores.items()
            if s.level == "row" and (p == number + 1 or (p == 0 and number == 0))
        }
        later = [a.body for n, a in accumulations.items() if levels[n] > number]
        later += [s.value for s, p in stores.values() if p > number and (p > number + 1 or s.level != "row")]
        for value in _row_values(kernel, list(map(seen, later)), number + 1, pass_of):
            buffer = Buffer(f"{kernel.name}_row{len(known)}", value.dtype if value.dtype != "bool" else "int32", dims)
            scratch.append(buffer)
            ends[buffer.name] = Store(buffer, at, _written(value), "row")
            known[value.key] = _read(buffer, at, value.dtype)
        used = frozenset[str]().union(*(seen(value).names for value in later))
        for name in sorted(n for n in now if f"@{n}" in used):
            a = now[name]
            buffer = _named_scratch(a, dims, scratch, "whole")
            ends[buffer.name] = Store(buffer, at, _written(_result(a)), "row")
            known[_result(a).key] = _read(buffer, at, _result(a).dtype)
        kernels.append(
            Kernel(f"{kernel.name}_{number}", kernel.rank, kernel.dims, kernel.reduced, now, ends, kernel.nodes)
        )
    return kernels


def _row_values(kernel: Kernel, values: list[Scalar], number: int, pass_of: Callable[[Scalar], int]) -> list[Scalar]:
    """What is computed in ``values`` of a row alone, as its mean and its deviation, and known before pass ``number``:
    each element would compute it anew. Not a part of what is put together: for other rows it would read elsewhere."""
    inner = {f"i{d}" for d in kernel.inner}
    rows: dict[str, Scalar] = {}
    visited: set[str] = set()

    def visit(value: Scalar) -> None:
        if value.key in visited:
            return
        visited.add(value.key)
        is_row = not value.names & inner and pass_of(value) <= number
        if is_row and value.cost >= _WORTH_KEEPING and value.op not in ("load", "result"):
            rows[value.key] = value
            return
        for operand in value.args if value.op != "piecewise" else ():
            visit(operand)

    for value in values:
        visit(value)
    return list(rows.values())


def _in_parts(kernel: Kernel, sizes: Sizes, parts: int, scratch: list[Buffer]) -> list[Tile]:
    """Parts of the reduced dimension as further rows, then their results together."""
    if len(kernel.inner) > 1:
        return _over_leading(kernel, scratch)
    (dim,) = kernel.inner
    size = kernel.dims[dim]
    block = 1 << max(6, (-(-sizes.of(size) // parts) - 1).bit_length())
    if is_columns(kernel) and variance_pairs(kernel):
        block = min(block, HELD)
    chunks = floordiv(size + (block - 1), poly(block))
    names = {f"i{d}": variable(f"i{d + 1}") for d in range(dim + 1, len(kernel.dims))}
    position = variable(f"i{dim}") * block + variable(f"i{dim + 1}")
    moved = {**names, f"i{dim}": position}
    dims = (*kernel.dims[:dim], chunks, poly(block), *kernel.dims[dim + 1 :])
    accumulations = {
        n: replace(a, body=rewrite(a.body, lambda _: None, moved)) for n, a in kernel.accumulations.items()
    }
    count = minimum(poly(block), size - variable(f"i{dim}") * block)
    outer = (*kernel.dims[:dim], chunks, *kernel.dims[dim + 1 :])
    first = Tile(
        f"{kernel.name}_part",
        kernel.rank,
        dims,
        frozenset({dim + 1}),
        about_own_means(kernel, accumulations, count),
        {},
        kernel.nodes,
        (position, size),
    )
    return [first, _together(kernel, first, outer, frozenset({dim}), scratch, count)]


def _together(
    kernel: Kernel,
    first: Tile,
    dims: tuple[Poly, ...],
    reduced: frozenset[int],
    scratch: list[Buffer],
    count: Poly,
    kind: str = "part",
) -> Tile:
    """What ends the parts of ``kernel`` that ``first`` makes, each of ``count`` elements."""
    last: dict[str, Accumulation] = {}
    outer = [first.variables[d] for d in first.outer]
    places = linear([variable(f"i{d}") for d in range(len(dims))], dims)
    for name, a in unique(kernel).items():
        buffer = _named_scratch(a, dims, scratch, kind)
        first.stores[buffer.name] = Store(buffer, linear(outer, dims), _written(_result(a)), "row")
        last[name] = replace(a, body=_read(buffer, places, a.dtype))
    for pair in variance_pairs(kernel):
        sums, squares = last[pair.total.name], last[pair.squares.name]
        last[pair.squares.name] = replace(squares, body=moved_together(pair, sums.body, squares.body, count))
    combined = Kernel(f"{kernel.name}_all", kernel.rank, dims, reduced, last, kernel.stores, kernel.nodes)
    return _tile(combined)


def _over_leading(kernel: Kernel, scratch: list[Buffer]) -> list[Tile]:
    """Several dimensions that cannot be merged: the last of them in the first kernel, the others in the second."""
    inner = kernel.inner[-1]
    own = about_own_means(kernel, kernel.accumulations, kernel.dims[inner])
    first = _tile(replace(kernel, name=f"{kernel.name}_part", reduced=frozenset({inner}), accumulations=own, stores={}))
    dims = tuple(s for d, s in enumerate(kernel.dims) if d != inner)
    reduced = frozenset(d if d < inner else d - 1 for d in kernel.inner[:-1])
    if inner != len(kernel.dims) - 1:
        # Later dimensions are kept ones: their variables move down in what is stored.
        names = {f"i{d}": variable(f"i{d - 1}") for d in range(inner + 1, len(kernel.dims))}
        kernel = replace(kernel, stores={n: _moved(s, names) for n, s in kernel.stores.items()})
    return [first, _together(kernel, first, dims, reduced, scratch, kernel.dims[inner])]


def _moved(store: Store, names: dict[str, Poly]) -> Store:
    value = rewrite(store.value, lambda _: None, names)
    return replace(store, offset=store.offset.substitute(names), value=value)
