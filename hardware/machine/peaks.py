"""Measures what the machine can do at best, once, and keeps it under ``home/"pools"``.

A figure that is too low would end searches early, so everything here errs upward: best of many repetitions, patterns
and runs, per working set, because 16 MB in a last-level cache move faster than 512 MB in memory. What was measured on
a busy machine is measured again on later calls, up to :data:`MOST_RUNS` times, and only ever raised.
"""

import os
import socket
import subprocess
import tempfile
from pathlib import Path

import msgspec

from ...schemas import HardwareFacts, Pool, PoolError, Schema, sha256
from .compilers import Compiler, find_compiler
from .kept_peaks import kept_path, measuring, read_kept, write_kept
from .lease import alone_now

PROGRAM = Path(__file__).parent / "peaks.cpp"
FLAGS = ("-O3", "-march=native", "-std=gnu++17", "-fopenmp", "-ffp-contract=fast")
MOST_RUNS = 3
LARGEST_SET = 512 << 20
FACTORS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Working sets, in halves of the private caches. Close together: the last-level cache that a virtual machine is shown
need not be the one it has."""
SECONDS = 180.0
"""Limit for the compiler and for the program; together they take about two seconds."""


class Peaks(Schema, frozen=True, kw_only=True):
    """Ceilings of one machine with one compiler and a number of threads."""

    bandwidths: tuple[tuple[int, float], ...]
    """Working set in bytes and best bandwidth in it, 10^9 bytes a second read plus written; sets ascending."""

    peak_gflops: float
    """fp32 multiply-add, 10^9 operations a second."""

    @property
    def copy_gbps(self) -> float:
        """Bandwidth of the largest working set: main memory."""
        return self.bandwidths[-1][1]


class _CachedPeaks(Schema, frozen=True, kw_only=True):
    machine: tuple[str, ...]
    """What the figures hold for, readable; the file's name has its hash."""
    peaks: Peaks
    runs: int
    """How often it was measured."""
    quiet: bool
    """Whether nothing else ran in the last run."""


def measured_peaks(pool: Pool, facts: HardwareFacts, home: Path, *, refresh: bool = False) -> Peaks:
    """The peaks of this machine for ``pool``, kept or measured now. Kept ones do while others of ``home`` are at work:
    to measure would disturb their timing, and see a busy machine.

    Raises:
        PoolError: no compiler is installed, or the program that measures does not build or run.
        InputError: ``home`` cannot be written.
    """
    compiler = find_compiler(pool)
    threads = pool.threads or facts.cores
    machine = (
        socket.gethostname(),
        facts.device,
        *facts.isa,
        str(threads),
        str(compiler),
        sha256(PROGRAM.read_bytes()),
        *map(str, FACTORS),
    )
    path = kept_path(home, pool, machine)
    with measuring(path.parent), alone_now(pool, home) as alone:
        record = None if refresh else read_kept(path, _CachedPeaks)
        if record is not None and (record.quiet or record.runs >= MOST_RUNS or not alone):
            return record.peaks
        quiet = os.getloadavg()[0] < 0.25 * facts.cores
        peaks = measure(compiler, threads, working_sets(facts, threads))
        if record is not None:
            peaks = higher(record.peaks, peaks)
        runs = 1 if record is None else record.runs + 1
        write_kept(path, _CachedPeaks(machine=machine, peaks=peaks, runs=runs, quiet=quiet))
        return peaks


def working_sets(facts: HardwareFacts, threads: int) -> tuple[int, ...]:
    """Working sets to measure, bytes, ascending: from half of the private caches to main memory."""
    private = (facts.l2_bytes or 1 << 20) * threads
    largest = min(max(LARGEST_SET, 8 * private), facts.memory_bytes // 8)
    return (*(size for factor in FACTORS if (size := private * factor // 2) < largest), largest)


def measure(compiler: Compiler, threads: int, sets: tuple[int, ...]) -> Peaks:
    """Measure now, about a second.

    Raises:
        PoolError: the program does not build or run.
        OSError: its temporary folder cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="kernelswarm-peaks-") as folder:
        program = str(Path(folder, "peaks"))
        _run([compiler.path, *FLAGS, str(PROGRAM), "-o", program], "compile")
        output = _run([program, str(threads), str(sets[-1]), *map(str, sets)], "run")
    bandwidths, peak = [], 0.0
    for name, *values in map(str.split, output.splitlines()):
        if name == "bandwidth":
            bandwidths.append((int(values[0]), float(values[1]) / 1e9))
        elif name == "fma":
            peak = float(values[0]) / 1e9
    return Peaks(bandwidths=_falling(bandwidths), peak_gflops=peak)


def measured_again(pool: Pool, facts: HardwareFacts) -> HardwareFacts:
    """``facts`` with what the machine does now, where that is more; unchanged where it cannot be measured.

    Peaks that were measured beside other work are too low, and may stand between a kernel and its verdict.
    """
    threads = pool.threads or facts.cores
    try:
        peaks = measure(find_compiler(pool), threads, working_sets(facts, threads))
    except (PoolError, OSError):
        return facts
    speeds = dict(facts.bandwidths)
    return msgspec.structs.replace(
        facts,
        bandwidths=tuple((size, max(speed, speeds.get(size, 0.0))) for size, speed in peaks.bandwidths),
        peak_gflops=max(peaks.peak_gflops, facts.peak_gflops),
    )


def higher(first: Peaks, second: Peaks) -> Peaks:
    """The higher figure of two runs, everywhere; ``second``'s working sets if they differ."""
    before = dict(first.bandwidths)
    return Peaks(
        bandwidths=tuple((size, max(speed, before.get(size, 0.0))) for size, speed in second.bandwidths),
        peak_gflops=max(first.peak_gflops, second.peak_gflops),
    )


def _falling(bandwidths: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """A smaller working set is at least as fast as a larger one: where it is not, the run was disturbed."""
    best, falling = 0.0, []
    for size, speed in sorted(bandwidths, reverse=True):
        best = max(best, speed)
        falling.append((size, best))
    return tuple(reversed(falling))


def _run(command: list[str], action: str) -> str:
    # Beside other work threads that spin for one another take minutes over what takes a second alone.
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    subject = f"cannot {action} the program that measures this machine"
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)
    except subprocess.TimeoutExpired as error:
        raise PoolError(f"{subject}: no end after {SECONDS:g} s; try again when the machine is less busy") from error
    if result.returncode != 0:
        first = next(iter(result.stderr.splitlines()), f"exit status {result.returncode}")
        way_out = f"{command[0]} has to support OpenMP (`apt-get install g++`, or `libomp-dev` for clang)"
        raise PoolError(f"{subject} ({first})" + (f"; the compiler {way_out}" if action == "compile" else ""))
    return result.stdout
