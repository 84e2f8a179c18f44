"""Which tunables of Triton kernels each advice of the analyst changes."""

from ...schemas import AdviceAction
from ..ir.tunables import Mutations

GPU_MUTATIONS: Mutations = {
    AdviceAction.reduce_traffic: (
        ("fusion", ("all",)),
        ("row", ("whole",)),
        ("online", (True,)),
        ("variance", ("shifted", "welford")),
        ("keep_shared", (False,)),
        ("channels_last", (False,)),
        ("evict", (True,)),
    ),
    AdviceAction.avoid_page_faults: (),
    AdviceAction.stream_stores: (("stream", (True,)), ("evict", (True,))),
    AdviceAction.more_parallelism: (
        ("split", (264, 1056, 64)),
        ("split_k", (4, 8, 2)),
        ("stream_k", (True,)),
        ("rows", (1, 2)),
        ("block", (512, 1024)),
        ("tile_m", (64, 32)),
        ("tile_n", (64, 32)),
    ),
    AdviceAction.less_overhead: (
        ("persistent", (4, 2, 8)),
        ("rows", (8, 16, 4)),
        ("split", (1,)),
        ("fusion", ("all",)),
        ("block", (4096, 8192)),
    ),
    AdviceAction.cheaper_math: (
        ("math", ("fast",)),
        ("precision", ("tf32x3",)),
        ("variance", ("shifted",)),
        ("templates", (False,)),
        ("own_convolutions", (False,)),
    ),
    AdviceAction.more_accurate_math: (
        ("math", ("accurate",)),
        ("precision", ("ieee", "tf32x3")),
        ("variance", ("two_pass",)),
        ("online", (False,)),
    ),
    # Warps of all kernels at once come last: in 53 searches they gained 4 % at most, and lost half where there are
    # products, whose own fit their tiles.
    AdviceAction.vectorize: (
        ("channels_last", (True,)),
        ("row", ("whole", "loop")),
        ("block", (4096, 2048, 8192)),
        ("stages", (3, 4, 2)),
        ("tile_m", (128, 64)),
        ("tile_n", (128, 256)),
        ("tile_k", (64, 32)),
        ("warps", (4, 8, 2, 16)),
    ),
    AdviceAction.faster_lookup: (("block", (1024, 512)), ("warps", (4, 8))),
    AdviceAction.split_kernels: (("fusion", ("rows", "split")), ("keep_shared", (True,)), ("templates", (False,))),
    AdviceAction.repair: (
        ("warps", (8, 4)),
        ("row", ("loop",)),
        ("stages", (2, 1)),
        ("tile_k", (32,)),
        ("math", ("accurate",)),
        ("precision", ("ieee",)),
        ("variance", ("two_pass",)),
        ("templates", (False,)),
        ("fusion", ("rows", "split")),
        ("rows", (1,)),
    ),
    AdviceAction.simplify: (
        ("persistent", (0,)),
        ("stages", (0,)),
        ("stream", (False,)),
        ("split_k", (1,)),
        ("stream_k", (False,)),
        ("warps", (0,)),
        ("block", (0,)),
        ("keep_shared", (False,)),
    ),
}
"""For every advice the tunables that follow it, with the values to try, the most promising first."""
