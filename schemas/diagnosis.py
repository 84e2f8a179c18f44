"""What the analyst says of a node: the bottleneck, on which evidence, and what to try."""

from enum import StrEnum

from .base import Schema


class Bottleneck(StrEnum):
    """What limits a candidate, or what is wrong with it."""

    memory_bandwidth = "memory_bandwidth"
    """Time goes into moving bytes; the traffic is near what the machine can do."""
    memory_traffic = "memory_traffic"
    """Memory bound, but far from the floor: more bytes are moved than needed (passes, page faults, temporaries)."""
    latency = "latency"
    """Dependent loads (gathers, searches) or short loops that do not fill the machine."""
    compute = "compute"
    """Arithmetic, transcendental functions above all."""
    parallelism = "parallelism"
    """Cores stand idle."""
    overhead = "overhead"
    """Fixed cost of a call: dispatch, allocation, starting threads."""
    at_floor = "at_floor"
    """Nothing left to win on this machine."""
    fault = "fault"
    """It does not work; see the verdict."""

    @property
    def in_words(self) -> str:
        """What stands behind "limited by"."""
        return _IN_WORDS.get(self.value, self.value.replace("_", " "))


_IN_WORDS = {
    "parallelism": "too little parallel work",
    "overhead": "the overhead of a call",
    "compute": "arithmetic",
    "at_floor": "the machine",
}


class AdviceAction(StrEnum):
    """What to try next, in words that every synthesizer understands. The generator maps them to tunables."""

    reduce_traffic = "reduce_traffic"
    """Fuse more, fewer passes, keep rows in cache."""
    avoid_page_faults = "avoid_page_faults"
    """Huge pages for large outputs, fewer temporaries."""
    stream_stores = "stream_stores"
    """Write around the cache."""
    more_parallelism = "more_parallelism"
    """More threads, finer grain."""
    less_overhead = "less_overhead"
    """Fewer kernels and threads, coarser grain, a cheaper host wrapper."""
    cheaper_math = "cheaper_math"
    """Approximate intrinsics within the error bound."""
    more_accurate_math = "more_accurate_math"
    """Exact intrinsics, compensated or two-pass reductions."""
    vectorize = "vectorize"
    """Wider vectors, other unrolling, contiguous inner loops."""
    faster_lookup = "faster_lookup"
    """Another algorithm for searches and gathers."""
    split_kernels = "split_kernels"
    """Undo a fusion that recomputes or spills."""
    repair = "repair"
    """Fix the fault named in the evidence."""
    simplify = "simplify"
    """Go back to a plainer variant."""


class Advice(Schema, frozen=True, kw_only=True):
    """One thing to try."""

    action: AdviceAction
    reason: str
    """Why, with the number it rests on."""
    weight: float = 1.0
    """How much the analyst believes in it, relative to the other advice of the diagnosis."""


class Finding(Schema, frozen=True, kw_only=True):
    """One piece of evidence."""

    name: str
    """What was looked at: ``roofline_fraction``, ``bytes_per_call``, ``instructions``, ``compiler``, ``sibling``."""

    value: str
    """As a person would read it, with its unit."""

    meaning: str
    """What follows from it."""
