"""Which tunables of C++ kernels each advice of the analyst changes."""

from ...schemas import AdviceAction
from ..ir.tunables import Mutations

CPP_MUTATIONS: Mutations = {
    AdviceAction.reduce_traffic: (
        ("channels_last", (True,)),
        ("stream", (True,)),
        ("fusion", ("all",)),
        ("windows", ("slices",)),
        ("attention", ("all", "masked")),
        ("reassociate", (True,)),
        ("row_buffer", ("costly", "all", "none")),
        ("online", (True,)),
        ("variance", ("shifted",)),
        ("in_place", (True,)),
        ("keep_shared", (False,)),
        ("huge_pages", (True,)),
    ),
    AdviceAction.avoid_page_faults: (
        ("channels_last", (True,)),
        ("huge_pages", (True,)),
        ("in_place", (True,)),
        ("keep_shared", (False,)),
    ),
    AdviceAction.stream_stores: (
        ("stream", (True,)),
        ("huge_pages", (True,)),
        ("in_place", (True,)),
        ("block", (65536,)),
    ),
    AdviceAction.more_parallelism: (
        ("threads", (0,)),
        ("serial_below", (4096, 32768)),
        ("block", (4096, 2048)),
        ("tile", (64, 128)),
        ("dynamic", (True,)),
    ),
    AdviceAction.less_overhead: (
        ("threads", (1,)),
        ("serial_below", (262144,)),
        ("block", (65536,)),
        ("dynamic", (False,)),
        ("fusion", ("all",)),
        ("keep_shared", (False,)),
    ),
    AdviceAction.cheaper_math: (
        ("math", ("fast", "short", "accurate")),
        ("vector_bits", (512,)),
        ("row_buffer", ("costly", "all")),
        ("variance", ("shifted",)),
    ),
    AdviceAction.more_accurate_math: (
        ("math", ("accurate", "libm")),
        ("double_sums", (True,)),
        ("variance", ("two_pass",)),
        ("online", (False,)),
        ("lanes", (128,)),
    ),
    AdviceAction.vectorize: (
        ("vector_bits", (512, 0)),
        ("lanes", (128, 32, 16)),
        ("unroll", (True,)),
        ("row_buffer", ("none", "costly", "all")),
    ),
    AdviceAction.faster_lookup: (
        ("search", ("branchless_tiled", "grid", "linear_count", "binary")),
        ("block", (4096,)),
        ("prefetch", (512,)),
        ("vector_bits", (512,)),
    ),
    AdviceAction.split_kernels: (
        ("fusion", ("rows", "split")),
        ("windows", ("library",)),
        ("keep_shared", (True,)),
        ("row_buffer", ("all", "none")),
    ),
    AdviceAction.repair: (
        ("math", ("accurate", "libm")),
        ("variance", ("two_pass",)),
        ("online", (False,)),
        ("in_place", (False,)),
        ("attention", ("library",)),
        ("reassociate", (False,)),
        ("search", ("branchless_tiled", "binary")),
        ("windows", ("library",)),
        ("fusion", ("rows", "split")),
        ("row_buffer", ("none",)),
        ("double_sums", (True,)),
    ),
    AdviceAction.simplify: (
        ("search", ("branchless_tiled",)),
        ("online", (False,)),
        ("prefetch", (0,)),
        ("unroll", (False,)),
        ("dynamic", (False,)),
        ("stream", (False,)),
        ("row_buffer", ("none",)),
        ("keep_shared", (False,)),
    ),
}
"""For every advice the tunables that follow it, with the values to try, the most promising first."""
