"""Share of our cores that other work took during timing: other processes, and other virtual machines.

Ours are the cores that this process may use: what runs on the others of a machine that is shared takes nothing away.
"""

import os
from collections.abc import Sequence
from pathlib import Path

_IDLE = (3, 4)
"""Fields of ``/proc/stat`` that are no work: idle, and idle with something being read."""
_COUNTED = 8
"""Fields up to stolen time; what guests took is in the first ones already."""
_TICKS = os.sysconf("SC_CLK_TCK")


class BackgroundLoad:
    """Watches from when it is made."""

    def __init__(self, own: Sequence[int]) -> None:
        """``own`` are the processes, beside this one, whose work is not others'."""
        self._own = [pid for pid in own if pid]
        self._before = self._now()

    def share(self) -> float:
        """Share of our cores' time, from 0 to 1, that others have taken so far; 0 where unknown."""
        before, now = self._before, self._now()
        if before is None or now is None or now[0] <= before[0]:
            return 0.0
        total, busy, own = (after - earlier for after, earlier in zip(now, before, strict=True))
        return min(1.0, max(0.0, (busy - own) / total))

    def cores(self) -> float:
        """How many of our cores others have kept busy so far; 0 where unknown."""
        return self.share() * len(_cores())

    def _now(self) -> tuple[float, float, float] | None:
        """Ticks of our cores, those with work, and those of our own work; None where the system does not say."""
        names = {f"cpu{core}" for core in _cores()}
        try:
            lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
            cores = [[int(field) for field in line[1:]][:_COUNTED] for line in lines if line and line[0] in names]
        except (OSError, ValueError):
            return None
        own = sum(os.times()[:2]) * _TICKS + sum(map(_ticks, self._own))
        total, idle = sum(map(sum, cores)), sum(core[index] for core in cores for index in _IDLE)
        return float(total), float(total - idle), own


def _cores() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _ticks(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return float(fields[11]) + float(fields[12])
