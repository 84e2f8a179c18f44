"""Profiles a candidate on the GPU with whatever this machine permits, into one result."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ...schemas import DeviceProfile, KernelProfile
from ..limited_command import Finished, Limits, run_limited
from . import ncu, proton, trace
from .called import CALLS

_CALLED = f"{__package__}.called"
_NO_LIMIT = 1 << 60
"""CUDA maps address space far beyond the memory there is."""
LARGEST_FILE = 1 << 30


class Profilers:
    """The GPU's profilers on this machine. What one cannot do here is found out once, said once and done without."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        """``environment`` is added to what the candidate's process sees: which device, where libraries are."""
        self._environment = environment or {}
        self._ncu = ncu.find_ncu()
        self._no_counters = "" if self._ncu else "no counters of the GPU: Nsight Compute (ncu) is not installed"

    async def profile(self, folder: Path, *, seconds: float) -> DeviceProfile:
        """Profile the candidate in ``folder`` (see :mod:`.called` for what lies there); hold the device's lease.

        Every profiler runs the candidate in a process of its own, ``seconds`` at most each. A candidate that fails
        there gives a profile without kernels, and the reason among ``unavailable``.
        """
        found = await self._traced(folder, seconds)
        if not found.kernels:
            return found
        if not self._no_counters:
            found = await self._counted(found, folder, seconds)
        source = (folder / "candidate.py").read_text(encoding="utf-8")
        if proton.has_scopes(source):
            found = await self._scoped(found, folder, seconds)
        reasons = (*found.unavailable, *filter(None, (self._no_counters,)))
        return replace(found, unavailable=tuple(dict.fromkeys(reasons)))

    async def _traced(self, folder: Path, seconds: float) -> DeviceProfile:
        finished = await self._run((), folder, "trace", seconds)
        try:
            return trace.read_trace((folder / "profile.out").read_bytes(), CALLS)
        except (OSError, ValueError):
            reason = f"torch.profiler gave nothing: {_last_line(finished)}"
            return DeviceProfile(sources=(), kernels=(), launches=0, busy_us=0.0, unavailable=(reason,))

    async def _counted(self, found: DeviceProfile, folder: Path, seconds: float) -> DeviceProfile:
        finished = await self._run(ncu.command(self._ncu, ()), folder, "plain", seconds)
        kernels = ncu.read_table(finished.output)
        if not kernels:
            self._no_counters = (
                ncu.why_not(finished.output) or "no counters of the GPU: Nsight Compute's table is empty"
            )
            return found
        return replace(found, sources=(*found.sources, "ncu"), kernels=merged(found.kernels, kernels))

    async def _scoped(self, found: DeviceProfile, folder: Path, seconds: float) -> DeviceProfile:
        finished = await self._run((), folder, "proton", seconds)
        try:
            regions = proton.read_tree((folder / "profile.out").read_bytes())
        except (OSError, ValueError):
            reason = f"Proton gave nothing: {_last_line(finished)}"
            return replace(found, unavailable=(*found.unavailable, reason))
        kernels = tuple(replace(kernel, regions=regions.get(kernel.name, {})) for kernel in found.kernels)
        return replace(found, sources=(*found.sources, "proton"), kernels=kernels)

    async def _run(self, wrapper: Sequence[str], folder: Path, mode: str, seconds: float) -> Finished:
        (folder / "profile.out").unlink(missing_ok=True)
        scratch = folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        program = (sys.executable, "-P", "-m", _CALLED, str(folder), mode)
        limits = Limits(seconds, _NO_LIMIT, LARGEST_FILE)
        return await run_limited([*wrapper, *program], cwd=folder, limits=limits, environment=self._environment)


def merged(timed: Sequence[KernelProfile], counted: Sequence[KernelProfile]) -> tuple[KernelProfile, ...]:
    """Counters of ``counted`` beside the times of ``timed``: under Nsight Compute a kernel runs alone and is slower."""
    by_name = {_short(kernel.name): kernel for kernel in counted}
    result = []
    for kernel in timed:
        seen = by_name.get(_short(kernel.name))
        result.append(
            kernel
            if seen is None
            else replace(seen, name=kernel.name, time_us=kernel.time_us, launches=kernel.launches)
        )
    return tuple(result)


def _short(name: str) -> str:
    """``void at::native::reduce<...>(...)`` and ``reduce`` are one kernel to two profilers."""
    plain = name.removeprefix("void ").partition("(")[0].partition("<")[0]
    return plain.rpartition("::")[2].strip()


def _last_line(finished: Finished) -> str:
    if finished.timed_out:
        return f"no end after {finished.seconds:.0f} s"
    lines = [line.strip() for line in finished.output.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit status {finished.returncode}"
