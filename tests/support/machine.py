"""What new homes would measure and compile anew: once for all tests."""

import contextlib
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


def built_in(folder: Path, build: Callable[[Pool, Path], Path]) -> Callable[[Pool, Path], Path]:
    """``build`` that keeps the allocator's library in ``folder``, and links it into the home that asks."""

    def built(pool: Pool, home: Path) -> Path:
        library = build(pool, folder)
        home.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (home / library.name).hardlink_to(library)
        return home / library.name

    return built
