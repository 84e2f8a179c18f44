"""Fixtures that more than one folder needs, and how long properties are tried.

The same examples on every run; ``HYPOTHESIS_PROFILE=long pytest -k properties`` tries ten times as many, new ones.
"""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import machine
import pytest
from hypothesis import settings

from kernelswarm.bus import Bus, embedded

settings.register_profile("quick", derandomize=True, deadline=None)
settings.register_profile("long", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# A hundred processes that tests start would each compile the whole package anew, half a second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(autouse=True, scope="session")
def _the_machine_is_measured_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        kept = tmp_path_factory.mktemp("machine")
        patch.setattr("kernelswarm.hardware.platforms.cpu.measured_peaks", machine.measured_in(kept))
        yield


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[Bus]:
    """A connection to a real server of its own."""
    async with embedded(tmp_path) as url, await Bus.connect(url, name="test") as connected:
        yield connected
