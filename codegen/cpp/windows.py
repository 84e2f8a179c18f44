"""Writes pools as elementwise operators on slices, which fuse with their neighbours on a processor.

PyTorch's maximum is a scalar loop that writes an index beside every element, its mean is another: slices took a half
to a twelfth of their time where few of them are added up (one thread, 3 x 3 and 2 x 2 windows on 28 to 57 columns).
What windows read where they overlap is stored first (:mod:`..lowering.repeated`).
"""

import math

from ...schemas import Graph
from ..lowering.pooling import spell_pools

MOST = 16
"""Elements of a window that are spelled out: each is a load of its own."""


def spell_windows(graph: Graph, windows: str) -> Graph:
    """The graph with its small pools spelled out, unless :attr:`.Settings.windows` leaves them to the library."""
    if windows == "library":
        return graph
    return spell_pools(graph, lambda window, source: math.prod(window.size) <= MOST, stores=True)
