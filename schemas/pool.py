"""A pool: one kind of hardware that candidates are searched for, and what is known of it."""

from .base import Schema

BASELINES = ("eager", "compile", "max_autotune")
"""What a candidate can be timed against."""

BEST_PER_SHAPE = "best_per_shape"
"""The fastest baseline at each of several timed shapes, where that is not the same one at all of them."""

BASELINE_NAMES = {
    "eager": "eager",
    "compile": "torch.compile",
    "max_autotune": "max-autotune",
    BEST_PER_SHAPE: "the best of each shape",
}
"""The same as people call them, for sentences and tables."""


class Accelerator(Schema, frozen=True, kw_only=True):
    """One device of a pool, as its driver describes it."""

    index: int
    """Its number on this machine, in the order of the PCI bus."""

    name: str
    """Model: ``NVIDIA H200``."""

    uuid: str
    """What names it on every host and in ``CUDA_VISIBLE_DEVICES``."""

    target: str
    """What code is compiled for: ``sm_90``."""

    memory_bytes: int
    multiprocessors: int = 0
    l2_bytes: int = 0
    shared_bytes: int = 0
    """Largest shared memory of one block."""

    max_clock_mhz: int = 0
    """Highest clock of the multiprocessors."""

    max_memory_clock_mhz: int = 0
    power_limit_watts: float = 0.0
    """Enforced limit; 0 if unknown."""


class HardwareFacts(Schema, frozen=True, kw_only=True):
    """What detection found and measured on a machine that serves the pool. Measured once and kept with the pool."""

    device: str
    """Readable name: the processor's or accelerator's model."""

    cores: int
    """Cores this process may run on."""

    isa: tuple[str, ...]
    """Instruction sets that code generation looks at, sorted: ``avx2``, ``avx512f``, ``fma``, ``neon``."""

    vector_bytes: int
    """Widest vector register in bytes."""

    l2_bytes: int
    """Second-level cache of one core; 0 if unknown."""

    l3_bytes: int
    """Last-level cache; 0 if unknown."""

    memory_bytes: int
    """Main memory that this process may use."""

    copy_gbps: float
    """Measured copy bandwidth with all cores, 10^9 bytes a second, read plus written."""

    peak_gflops: float
    """Measured fp32 multiply-add peak with all cores, 10^9 operations a second."""

    huge_pages: str = "unknown"
    """Transparent huge pages: ``always``, ``madvise``, ``never`` or ``unknown``."""

    compilers: tuple[str, ...] = ()
    """Native compilers found, as ``g++ 12.2.0``; the first is used."""

    torch: str = ""
    """Version of torch that baselines and candidates run under."""

    bandwidths: tuple[tuple[int, float], ...] = ()
    """Measured bandwidth by working set: (bytes, 10^9 bytes a second read plus written), sets ascending, bandwidths
    falling. On a processor ``copy_gbps`` is the last one's. What fits in a cache has a lower floor than main memory
    gives."""

    accelerators: tuple[Accelerator, ...] = ()
    """Devices that serve the pool, alike; empty for a processor. Peaks are those of the first."""

    matmul_gflops: dict[str, float] = {}
    """Measured peak of large matrix products by precision, 10^9 operations a second: ``fp32`` (IEEE), ``tf32``,
    ``bf16``, ``fp16``, ``fp8``; what the device lacks is missing."""

    versions: dict[str, str] = {}
    """Versions beside torch's that timings depend on: ``driver``, ``cuda``, ``triton``."""


class Pool(Schema, frozen=True, kw_only=True):
    """A pool as its TOML file describes it."""

    name: str
    """``[a-z0-9-]+``; the subject token and the file's stem."""

    platform: str
    """``cpu`` or ``nvidia``."""

    languages: tuple[str, ...]
    """Languages candidates may be written in, preferred first: ``cpp``, ``triton``, ``cuda``."""

    description: str = ""
    """One line for ``kernelswarm pools``."""

    compiler: str = ""
    """Compiler to use; empty: the first found."""

    threads: int = 0
    """Threads a candidate may use; 0: all cores."""

    baselines: tuple[str, ...] = BASELINES
    """What candidates are timed against, ``eager`` among them. A win counts against the best of these."""

    candidate_seconds: float = 60.0
    """Wall-clock limit for everything one candidate does in one step, seconds."""

    candidate_memory_bytes: int = 0
    """Address-space limit of a candidate's process; 0: half of the machine's memory."""

    devices: tuple[int, ...] = ()
    """Which accelerators of the machine to use, by index; empty: all that the target fits."""

    target: str = ""
    """What to compile for (``sm_90``), on machines without the accelerator too; empty: what is found."""
