"""Stores that bypass the caches: a tile of an output is computed in the first-level cache, then streamed to memory.

An ordinary store first reads the line that it writes to. Compilers stream of their own accord only what is written
with intrinsics, so the loop stays plain (and vectorises) and a copy of its tile is streamed.
"""

from ..ir.loops import Store
from ..ir.poly import ONE, Poly
from .passes_types import Item, Range
from .scope import Scope, cname
from .text import STORED, index_text

TILE = 1024
"""Elements: a few tiles fit into the first-level cache together with what is read for them."""


def streamable(items: list[Item], variable: str) -> list[Store]:
    """The stores of ``items`` that write consecutive elements as ``variable`` grows."""
    return [item.store for item in items if item.store is not None and item.store.offset.coefficient(variable) == ONE]


def tile_name(store: Store) -> str:
    """The tile that a store writes to instead of its buffer."""
    return f"{cname(store.buffer.name)}_tile"


def declarations(stores: list[Store], size: int = TILE) -> list[str]:
    """The tiles."""
    return [f"alignas(64) {STORED[store.buffer.dtype]} {tile_name(store)}[{size}];" for store in stores]


def copies(stores: list[Store], loop: Range, scope: Scope) -> list[str]:
    """Stream the tiles of the block that begins at ``<variable>_block`` and is ``<variable>_width`` wide."""
    block = Poly((((f"{loop.variable}_block",), 1),))
    lines = []
    for store in stores:
        begin = index_text(store.offset.substitute({loop.variable: block}), scope.text)
        stream = scope.needs.helper("ks_stream")
        lines.append(f"{stream}(&{cname(store.buffer.name)}_out[{begin}], {tile_name(store)}, {loop.variable}_width);")
    return lines
