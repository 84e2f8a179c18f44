"""Fixtures that more than one folder needs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kernelswarm.bus import Bus, embedded


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[Bus]:
    """A connection to a real server of its own."""
    async with embedded(tmp_path) as url, await Bus.connect(url, name="test") as connected:
        yield connected
