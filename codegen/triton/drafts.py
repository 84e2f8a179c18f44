"""Where a search in Triton begins: the tunables that drafts turn, and settings of several at once."""

from ...schemas import Config
from .tunables import TRANSPOSED_TOO

GPU_DRAFTS = (
    "recurrent",
    "warps",
    "row",
    "block",
    "persistent",
    "stages",
    "tile_m",
    "tile_n",
    "tile_k",
    "templates",
    "own_convolutions",
    "tuned",
    "channels_last",
    "windows",
    "plain",
    "reassociate",
    "chain",
    "precision",
    "rows",
    "math",
    "fusion",
    "online",
    "variance",
    "split_k",
    "stream_k",
)
"""Tunables that drafts turn."""

_TILES: tuple[Config, ...] = (
    # Two programs on a multiprocessor: while one waits for its products, the other has work.
    {"tile_m": 64, "tile_n": 128, "warps": 4, "stages": 3},
    {"tile_m": 128, "tile_n": 128, "warps": 8, "stages": 3},
    {"tile_m": 128, "tile_n": 256, "warps": 8, "stages": 3},
    {"tile_m": 32, "tile_n": 128, "warps": 4},
    {"tile_m": 64, "split_k": 4},
    {"tile_m": 128, "tile_n": 128, "stream_k": True},
    {"prologue": "none"},
)
GPU_STARTS: tuple[Config, ...] = (
    # The library's products, all around them fused: ours must win against them, however few drafts there are.
    {"templates": False},
    # The library's convolutions in the other order, ours, and the library's as its heuristics choose them.
    {"channels_last": False},
    {"channels_last": True},
    {"channels_last": TRANSPOSED_TOO},
    {"own_convolutions": True},
    {"tuned": False},
    {"tuned": True},
    _TILES[0],
    {"chain": True, "tile_n": 256, "tile_k": 128},
    {"chain": False, "tile_m": 64, "tile_n": 128, "tile_k": 128, "warps": 8, "stages": 2},
    # Two programs on a multiprocessor: conv1d in fp16 took 0.140 ms instead of 0.151 (H200).
    {"channels_last": False, "warps": 4, "stages": 4},
    {"channels_last": True},
    {"own_convolutions": True, "channels_last": False},
    {"own_convolutions": True, "channels_last": True, "tile_n": 256, "warps": 8, "stages": 3},
    # Few registers, so all threads at once, and what was read is read again from the caches: norms of 8192 elements,
    # and softmax in fp32, are 3 to 7 % faster than with their rows in registers (H200).
    {"row": "loop", "block": 8192, "warps": 16, "stream": True},
    # The next blocks on their way: cross entropy over 32,768 classes.
    {"row": "loop", "block": 8192, "warps": 4, "stages": 3},
    {"row": "loop", "block": 4096, "warps": 16, "stream": True},
    # Long rows twice through the caches: what torch.compile writes for them.
    {"row": "loop", "block": 2048, "warps": 16},
    # One program a multiprocessor: what the second pass reads again lies in the second-level cache.
    {"persistent": 1, "block": 8192, "warps": 16},
    {"stream": True},
    # Four accesses of 16 bytes a thread under way at once.
    {"stream": True, "block": 4096, "warps": 8},
    {"row": "loop", "block": 1024, "warps": 8},
    {"row": "loop", "block": 4096, "warps": 16},
    # Rows in registers, the next ones on their way from memory.
    {"row": "whole", "persistent": 4, "stages": 2},
    {"row": "whole", "persistent": 2, "stages": 3, "warps": 16},
    {"variance": "welford", "row": "loop", "block": 2048, "warps": 16},
    # Each as it is, and where PyTorch's convolutions are the default.
    *(config for tile_config in _TILES for config in (tile_config, {"own_convolutions": True, **tile_config})),
)
"""Configs for drafts that turn several tunables."""
