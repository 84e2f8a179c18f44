"""Which pools are elementwise operators on slices on a processor, and fuse with what is around them.

PyTorch's maximum is a scalar loop that writes an index beside every element, its mean is another: slices took a half
to a twelfth of their time where few of them are added up (one thread, 3 x 3 and 2 x 2 windows on 28 to 57 columns).
"""

import math

from ...schemas import Graph, Node
from ..lowering.pointwise import is_pointwise
from ..lowering.pooling import spell_pools
from ..lowering.windows import Window

MOST = 16
"""Elements of a window that are spelled out: each is a load of its own."""


def spell_windows(graph: Graph, windows: str) -> Graph:
    """The graph with the pools spelled out that :attr:`.Settings.windows` names."""
    if windows == "library":
        return graph
    again = windows == "all"

    def accepts(window: Window, source: Node) -> bool:
        computed = source.op == "call" and is_pointwise(source.target)
        return _is_short(window) and (again or not computed or window.stride == window.size)

    return spell_pools(graph, accepts)


def _is_short(window: Window) -> bool:
    """Whether GCC is done with it in a second or two: padding splits a loop for each element where strides are 1."""
    splits = any(padding and stride == 1 for padding, stride in zip(window.padding, window.stride, strict=True))
    return math.prod(window.size) <= MOST and not splits
