"""How much of the processor others took while something was timed: their work, and that of other virtual machines."""

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
        """Share of the processor's time, all cores, from 0 to 1, that others have taken so far; 0 where unknown."""
        before, now = self._before, self._now()
        if before is None or now is None or now[0] <= before[0]:
            return 0.0
        whole, busy, own = (after - earlier for after, earlier in zip(now, before, strict=True))
        return min(1.0, max(0.0, (busy - own) / whole))

    def cores(self) -> float:
        """How many cores others have kept busy so far; 0 where unknown."""
        return self.share() * (os.cpu_count() or 1)

    def _now(self) -> tuple[float, float, float] | None:
        """Ticks of all cores, those with work, and those of our own work; None where the system does not say."""
        try:
            fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]][:_COUNTED]
        except (OSError, ValueError):
            return None
        own = sum(os.times()[:2]) * _TICKS + sum(map(_ticks, self._own))
        return float(sum(fields)), float(sum(fields) - sum(fields[index] for index in _IDLE)), own


def _ticks(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return float(fields[11]) + float(fields[12])
