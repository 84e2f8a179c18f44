"""What a GPU is and can do at best: measured once in a child process, and kept under ``home/"pools"``."""

import importlib.metadata
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from ...schemas import Accelerator, Pool, PoolError, Schema, decode, sha256
from .kept_peaks import kept_path, measuring, read_kept, write_kept

PROGRAM = Path(__file__).parent / "gpu_peaks_program.py"
SECONDS = 120.0
"""Limit for measuring; it takes about ten, five of them for importing torch and waking the GPU."""


class GpuPeaks(Schema, frozen=True, kw_only=True):
    """What one GPU is beyond what its driver tells without waking it, and its ceilings."""

    multiprocessors: int
    l2_bytes: int
    shared_bytes: int
    """Largest shared memory of one block."""
    cuda: str
    """CUDA that torch was built with."""
    copy_gbps: float
    """Largest copy, 10^9 bytes a second read plus written."""
    bandwidths: tuple[tuple[int, float], ...]
    """Working set in bytes and best bandwidth in it; sets ascending, bandwidths falling."""
    matmul_gflops: dict[str, float]
    """10^9 operations a second by precision."""


class _CachedPeaks(Schema, frozen=True, kw_only=True):
    machine: tuple[str, ...]
    """What the figures hold for, readable; the file's name has its hash."""
    peaks: GpuPeaks


def gpu_peaks(pool: Pool, device: Accelerator, driver: str, home: Path, *, refresh: bool = False) -> GpuPeaks:
    """Peaks of ``device``, kept or measured now; nothing else should run on it meanwhile.

    Raises:
        PoolError: torch has no CUDA here, or the program that measures does not run.
        InputError: ``home`` cannot be written.
    """
    machine = (
        socket.gethostname(),
        device.uuid,
        device.name,
        f"driver {driver}",
        f"torch {installed('torch')}",
        sha256(PROGRAM.read_bytes()),
    )
    path = kept_path(home, pool, machine)
    with measuring(path.parent):
        record = None if refresh else read_kept(path, _CachedPeaks)
        if record is not None:
            return record.peaks
        peaks = measure(device)
        write_kept(path, _CachedPeaks(machine=machine, peaks=peaks))
        return peaks


def measure(device: Accelerator) -> GpuPeaks:
    """Measure now, about ten seconds.

    Raises:
        PoolError: torch has no CUDA here, or the program does not run.
    """
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": device.uuid}
    command = [sys.executable, "-P", str(PROGRAM)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment, cwd=PROGRAM.parent
        )
    except subprocess.TimeoutExpired as error:
        raise PoolError(f"measuring {device.name} {device.index} did not end within {SECONDS:g} s") from error
    try:
        return decode(done.stdout, GpuPeaks)
    except msgspec.DecodeError:
        reason = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it printed nothing")
        raise PoolError(
            f"cannot measure {device.name} {device.index}: {reason.strip()}; it needs torch built with CUDA "
            f"(here is torch {installed('torch') or 'none'})"
        ) from None


def installed(package: str) -> str:
    """Version of ``package`` by its metadata, because importing it may take seconds; empty if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
