"""The tunables of C++ kernels: their fields, and their possible values for a graph and machine."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

from ...schemas import AdviceAction, Config, HardwareFacts

Value = str | int | float | bool


@dataclass(frozen=True)
class Settings:
    """One value for every tunable. The defaults are what is best most often."""

    fusion: str = "all"
    """``all``; ``rows``: no reduction over all rows in a rows' kernel; ``split``: a kernel for every reduction."""
    keep_shared: bool = False
    """Store pointwise values with several users instead of computing them for each."""
    variance: str = "two_pass"
    """``two_pass``, or ``shifted``: one pass over distances from the row's first element."""
    online: bool = False
    """Softmax: maximum and sum in one pass over blocks, with rescaling, instead of two passes."""
    row_buffer: str = "costly"
    """What later passes find in a row's buffer instead of computing it again: ``none``, ``costly`` or ``all``."""
    huge_pages: bool = True
    """Ask for huge pages under fresh outputs of 4 MiB and more, before they are first touched."""
    stream: bool = False
    """Write outputs past the caches, tile by tile: saves reading every line that is written."""
    windows: str = "slices"
    """Small pools, short convolutions along time: ``slices`` that fuse with what is around, or ``library`` kernels."""
    reassociate: bool = True
    """Matrix products in the order that costs least, and those of short integers by kernels for these."""
    attention: str = "masked"
    """Attention with a kernel of its own: none (``library``), where keys may be hidden (``masked``) or ``all``."""
    channels_last: bool = False
    """Library convolutions read and write channels last, as what is between them does."""
    in_place: bool = True
    """What follows a matrix product or convolution overwrites its result instead of a second tensor."""
    lanes: int = 32
    """Independent accumulators of a reduction."""
    tile: int = 256
    """Columns that a reduction over rows handles at once."""
    block: int = 16384
    """Elements of a pointwise loop that are one piece of work."""
    vector_bits: int = 0
    """Preferred vector width; 0: the compiler's choice."""
    unroll: bool = False
    """Let the compiler unroll loops."""
    threads: int = 0
    """Threads; 0: all of PyTorch's."""
    serial_below: int = 32768
    """Elements under which one thread does it all."""
    dynamic: bool = False
    """Hand work out dynamically instead of in equal shares."""
    math: str = "accurate"
    """Transcendental functions: ``libm``, ``accurate`` (1 to 3 ulp), ``fast`` (to 4) or ``short`` (as ``fast``, but for
    moderate angles and quotients); docs/cpp-math.md."""
    double_sums: bool = False
    """Accumulate float sums in double."""
    search: str = "branchless_tiled"
    """Searches in sorted tables: the name of a look-up algorithm."""
    prefetch: int = 0
    """Fetch this many elements of a row ahead; 0: leave it to the processor."""


SHIFTED_ERROR = 1e-4
"""Distances from a row's first element lose digits where that is an outlier: three of them in a row of a thousand. So
many only results of 16 bits have to spare."""


@dataclass(frozen=True)
class Features:
    """What a graph's kernels hold: which tunables matter."""

    rows: bool = False
    shared_between_passes: bool = False
    full: bool = False
    columns: bool = False
    pointwise: bool = False
    variance: bool = False
    softmax: bool = False
    transcendental: bool = False
    moderate: bool = False
    """Whether there are functions whose ``short`` version holds for moderate arguments only."""
    fast_error: float = 0.0
    """Worst relative errors of the ``fast`` versions of all functions, together."""
    error_bound: float = math.inf
    """Relative error that the problem allows."""
    float_sums: bool = False
    search: bool = False
    externs: bool = False
    windows: bool = False
    """Whether there are windows that could be slices."""
    products: bool = False
    """Whether matrix products could be others than those that were captured."""
    attention: bool = False
    """Whether there is attention with a kernel of its own."""
    convolutions: bool = False
    """Whether there are library convolutions that could have their channels last."""
    in_place: bool = False
    large_outputs: bool = False
    several_anchors: bool = False
    elements: int = 0
    """Elements of the largest iteration space at the main shape."""


Domain = Callable[[Features, HardwareFacts], tuple[Value, ...]]


def _when(condition: Callable[[Features], bool], *values: Value) -> Domain:
    return lambda features, hardware: values if condition(features) else ()


def _math(features: Features, hardware: HardwareFacts) -> tuple[str, ...]:
    if not features.transcendental:
        return ()
    is_allowed = features.fast_error <= features.error_bound
    return (
        "accurate",
        *(("fast",) if is_allowed else ()),
        "libm",
        *(("short",) if is_allowed and features.moderate else ()),
    )


def _vector_bits(features: Features, hardware: HardwareFacts) -> tuple[int, ...]:
    # GCC prefers half the width on most processors that have 512 bits: right for those of 2017, wrong for today's.
    return (512, 0) if hardware.vector_bytes >= 64 else ()


def _threads(features: Features, hardware: HardwareFacts) -> tuple[int, ...]:
    return (0, 1) if hardware.cores > 1 and features.elements < 1 << 20 else ()


DOMAINS: dict[str, Domain] = {
    "math": _math,
    "search": _when(lambda t: t.search, "branchless_tiled", "grid", "linear_count", "binary", "hinted"),
    "stream": _when(lambda t: t.large_outputs, False, True),
    "huge_pages": lambda t, h: (True, False) if t.large_outputs and h.huge_pages != "never" else (),
    "row_buffer": _when(lambda t: t.shared_between_passes, "costly", "none", "all"),
    "vector_bits": _vector_bits,
    "fusion": _when(lambda t: t.several_anchors, "all", "rows", "split"),
    "variance": _when(lambda t: t.variance and t.error_bound >= SHIFTED_ERROR, "two_pass", "shifted"),
    "online": _when(lambda t: t.softmax, False, True),
    "windows": _when(lambda t: t.windows, "slices", "library"),
    "lanes": _when(lambda t: t.rows, 32, 16, 64, 128),
    "block": _when(lambda t: t.pointwise, 16384, 2048, 4096, 65536),
    "tile": _when(lambda t: t.columns, 256, 64, 128, 512),
    "reassociate": _when(lambda t: t.products, True, False),
    "attention": _when(lambda t: t.attention, "masked", "library", "all"),
    "channels_last": _when(lambda t: t.convolutions, False, True),
    "in_place": _when(lambda t: t.in_place, True, False),
    "serial_below": _when(lambda t: t.elements < 1 << 20, 32768, 4096, 262144),
    "threads": _threads,
    "dynamic": _when(lambda t: True, False, True),
    "unroll": _when(lambda t: True, False, True),
    "prefetch": _when(lambda t: t.rows, 0, 512),
    "keep_shared": _when(lambda t: t.several_anchors, False, True),
    "double_sums": _when(lambda t: t.float_sums, False, True),
}
"""Values of every tunable, the default first, in the order worth trying; empty: it does not matter."""


def domains(features: Features, hardware: HardwareFacts) -> dict[str, tuple[Value, ...]]:
    """The tunables that matter, with their values."""
    tunables = {name: domain(features, hardware) for name, domain in DOMAINS.items()}
    return {name: values for name, values in tunables.items() if len(values) > 1}


def settings(config: Config) -> Settings:
    """Settings from a config: unknown tunables are ignored, missing ones have their default."""
    field_types = {field.name: field.type for field in fields(Settings)}
    return Settings(**{name: value for name, value in config.items() if name in field_types})  # type: ignore[arg-type]


Tunables = dict[str, tuple[Value, ...]]
"""The tunables that matter for a graph on a machine: their values, the default first."""

Mutations = dict[AdviceAction, tuple[tuple[str, tuple[Value, ...]], ...]]
"""For every advice the tunables that follow it, with the values to try, the most promising first."""


def complete(config: Config, tunables: Tunables) -> Config:
    """``config`` with the default of every tunable that it leaves out, and without those that do not matter here.

    Equal kernels have equal configs that way.
    """
    return {name: config[name] if config.get(name) in values else values[0] for name, values in tunables.items()}
