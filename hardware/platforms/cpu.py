"""The processor of this machine."""

from pathlib import Path

from msgspec.structs import replace

from ...schemas import HardwareFacts, Pool
from ..machine.compilers import find_compilers
from ..machine.cpu_facts import (
    cache_bytes,
    instruction_sets,
    memory_bytes,
    model_name,
    transparent_huge_pages,
    usable_cores,
    vector_bytes,
)
from ..machine.gpu_peaks import installed
from ..machine.peaks import measured_peaks

NAME = "cpu"


def detect(pool: Pool, home: Path, *, refresh: bool = False) -> HardwareFacts:
    """Facts of this processor; bandwidth and arithmetic peak are measured once per machine, compiler and threads.

    Raises:
        PoolError: no compiler is installed, or the program that measures does not run.
        InputError: ``home`` cannot be written.
    """
    isa = instruction_sets()
    unmeasured = HardwareFacts(
        device=model_name(),
        cores=usable_cores(),
        isa=isa,
        vector_bytes=vector_bytes(isa),
        l2_bytes=cache_bytes(2),
        l3_bytes=cache_bytes(3),
        memory_bytes=memory_bytes(),
        copy_gbps=0.0,
        peak_gflops=0.0,
        huge_pages=transparent_huge_pages(),
        compilers=tuple(str(compiler) for compiler in find_compilers(pool)),
        torch=installed("torch"),
    )
    peaks = measured_peaks(pool, unmeasured, home, refresh=refresh)
    return replace(unmeasured, copy_gbps=peaks.copy_gbps, peak_gflops=peaks.peak_gflops, bandwidths=peaks.bandwidths)
