"""What the languages of a GPU share: what to compile for, under which limits, and what does not fit the device."""

from collections.abc import Sequence

from ...schemas import Diagnostic, HardwareFacts, KernelResources, Pool, PoolError
from ..processes.limited_command import Limits
from ..processes.linux import LESS_URGENT

LARGEST_ARTIFACT = 256 << 20
LEAST_COMPILER_MEMORY, MOST_COMPILER_MEMORY = 8 << 30, 16 << 30
"""Bytes of address space: LLVM maps far more than it uses."""


def target_of(pool: Pool, hardware: HardwareFacts) -> str:
    """What to compile for, as ``sm_90``: the pool's word, else what was found.

    Raises:
        PoolError: neither says.
    """
    target = next((accelerator.target for accelerator in hardware.accelerators), "")
    if not (pool.target or target):
        raise PoolError(f'pool {pool.name!r} has no target and no GPU was found: add target = "sm_90" to its file')
    return pool.target or target


def compiler_limits(pool: Pool, hardware: HardwareFacts) -> Limits:
    """What compiling one candidate may use; timing goes on beside it, and its supervisor must not wait for a core."""
    memory = max(LEAST_COMPILER_MEMORY, min(pool.candidate_memory_bytes or MOST_COMPILER_MEMORY, MOST_COMPILER_MEMORY))
    return Limits(pool.candidate_seconds, memory, LARGEST_ARTIFACT, niceness=LESS_URGENT)


def misfits(kernels: Sequence[KernelResources], hardware: HardwareFacts) -> tuple[Diagnostic, ...]:
    """What the pool's device cannot run, as errors, and what it runs badly, as warnings."""
    most = min((device.shared_bytes for device in hardware.accelerators if device.shared_bytes), default=0)
    diagnostics: list[Diagnostic] = []
    for kernel in kernels:
        if most and kernel.shared_bytes > most:
            message = f"{kernel.name}: needs {kernel.shared_bytes} bytes of shared memory, a block has {most}"
            diagnostics.append(Diagnostic(severity="error", message=f"{message}: smaller blocks or fewer stages"))
        if kernel.spill_bytes:
            message = f"{kernel.name}: {kernel.spill_bytes} bytes a thread in local memory: registers spilled"
            diagnostics.append(Diagnostic(severity="warning", message=message))
    return tuple(dict.fromkeys(diagnostics))
