"""Writes pools and short convolutions as elementwise operators on slices, which fuse with their neighbours.

PyTorch's maximum is a scalar loop that writes an index beside every element, its mean is another: slices took a half
to a twelfth of their time where few of them are added up (one thread, 3 x 3 and 2 x 2 windows on 28 to 57 columns).
What windows read where they overlap is stored first (:mod:`..lowering.repeated`).

Depthwise convolutions along time take the library 2 to 4 times as long, a single sequence 16 times (3 and 7 taps, 256
channels of 400 and 33 steps). Of more taps, or of images, the padding alone makes hundreds of loops.
"""

import math

from ...hardware.machine.work import refs
from ...schemas import Graph
from ..lowering.depthwise import measured_convolutions, spell_depthwise
from ..lowering.pointwise import base_name
from ..lowering.pooling import spell_pools

MOST = 16
"""Elements of a window that are spelled out: each is a load of its own."""
MOST_TAPS = 8
"""Taps of a convolution along time that are spelled out."""


def spell_windows(graph: Graph, windows: str) -> Graph:
    """The graph with its small pools and short convolutions spelled out, unless :attr:`.Settings.windows` leaves them
    to the library. Convolutions that statistics read would be computed in each of their passes."""
    if windows == "library":
        return graph
    nodes = {node.name: node for node in graph.nodes}
    convolutions = [node for node in graph.nodes if node.op == "call" and base_name(node.target) == "convolution"]
    sizes = {node.name: nodes[list(refs(node.args))[1]].values[0].example[2:] for node in convolutions}
    library = {name for name, size in sizes.items() if len(size) != 1 or size[0] > MOST_TAPS}
    graph = spell_pools(graph, lambda window, source: math.prod(window.size) <= MOST, stores=True)
    return spell_depthwise(graph, library | measured_convolutions(graph).keys())
