"""What the operating system says of the processor: Linux through /proc and /sys, macOS through sysctl."""

import math
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

KNOWN_SETS = (
    "amx_bf16", "amx_int8", "amx_tile", "asimd", "asimdhp", "avx", "avx2", "avx512_bf16", "avx512_fp16", "avx512_vbmi2",
    "avx512_vnni", "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vbmi", "avx512vl", "avx_vnni", "bf16", "bmi1",
    "bmi2", "f16c", "fma", "neon", "popcnt", "sse2", "sse4_1", "sse4_2", "ssse3", "sve", "sve2",
)  # fmt: skip
"""Instruction sets that code generation looks at, spelled as Linux does."""

ROOT = Path("/")
"""Where /proc and /sys are looked for; tests put another."""


def model_name(root: Path = ROOT) -> str:
    """Readable name of the processor."""
    fields = _cpuinfo(root)
    name = fields.get("model name") or fields.get("Processor") or _sysctl("machdep.cpu.brand_string")
    return name or platform.processor() or platform.machine()


def instruction_sets(root: Path = ROOT) -> tuple[str, ...]:
    """Those of :data:`KNOWN_SETS` that the processor has, sorted."""
    fields = _cpuinfo(root)
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    flags += _sysctl("machdep.cpu.features machdep.cpu.leaf7_features").lower().replace(".", "_").split()
    if "asimd" in flags or platform.machine() == "arm64":
        flags += ["asimd", "neon"]
    return tuple(sorted(set(flags) & set(KNOWN_SETS)))


def vector_bytes(isa: tuple[str, ...]) -> int:
    """Width of the widest vector register, bytes (SVE counts as 16: its width is not in the flags)."""
    widths = {"avx512f": 64, "avx": 32, "avx2": 32}
    return max((widths.get(name, 16) for name in isa), default=8)


def usable_cores(root: Path = ROOT) -> int:
    """Cores this process may use: affinity and the control group's quota, at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for folder in _cgroup_folders(root, "cpu") if (quota := _cpu_quota(folder)) is not None]
    return max(1, math.floor(min([allowed, *quotas])))


def memory_bytes(root: Path = ROOT) -> int:
    """Memory this process may use: the machine's, or less if its control group says so."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [
        int(text)
        for folder in _cgroup_folders(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _text(folder / name)).isdigit()
    ]
    return min([total, *limits])


def cache_bytes(level: int, root: Path = ROOT) -> int:
    """Size of the first core's data or unified cache of ``level``; 0 if unknown."""
    for index in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if _text(index / "level") == str(level) and _text(index / "type") != "Instruction":
            return _size(_text(index / "size"))
    return int(_sysctl(f"hw.l{level}cachesize") or 0)


def transparent_huge_pages(root: Path = ROOT) -> str:
    """``always``, ``madvise``, ``never`` or ``unknown``."""
    chosen = re.search(r"\[(\w+)\]", _text(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return chosen[1] if chosen else "unknown"


def _cpuinfo(root: Path) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in _text(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return fields


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's control group, innermost first: version 2, then version 1."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        if controllers and controller not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / (controller if controllers else "")
        inner = base / path.lstrip("/")
        yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(base))


def _cpu_quota(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _size(text: str) -> int:
    number = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(number[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[number[2]] if number else 0


def _text(path: Path) -> str:
    """Contents of a file that may not be there on this system; empty then."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


@lru_cache(maxsize=16)
def _sysctl(names: str) -> str:
    if platform.system() != "Darwin":
        return ""
    result = subprocess.run(["/usr/sbin/sysctl", "-n", *names.split()], capture_output=True, text=True, check=False)
    return result.stdout.strip()
