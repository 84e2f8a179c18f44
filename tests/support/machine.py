"""What this machine can do at best: measured once for all tests, where every new home would wait seconds for it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from kernelswarm.hardware.machine.kept_peaks import measuring
from kernelswarm.hardware.machine.peaks import MOST_RUNS, Peaks, measured_peaks
from kernelswarm.schemas import HardwareFacts, Pool

NAME = "cpu"


def measured_in(folder: Path) -> Callable[..., Peaks]:
    """``measured_peaks`` that keeps its figures under ``folder``, and puts a copy into the home that asks."""

    def measured(pool: Pool, facts: HardwareFacts, home: Path, *, refresh: bool = False) -> Peaks:
        with measuring(home / "pools"), measuring(folder):
            peaks = measured_peaks(replace(pool, name=NAME), facts, folder, refresh=refresh)
            for file in (folder / "pools").glob(f"{NAME}.*.json"):
                # Else it would be measured again on a busy machine, which one that runs tests is.
                file.write_text(json.dumps(json.loads(file.read_bytes()) | {"runs": MOST_RUNS}))
                # For the processes that a test starts in its home.
                shutil.copy(file, home / "pools" / file.name.replace(NAME, pool.name, 1))
        return peaks

    return measured
