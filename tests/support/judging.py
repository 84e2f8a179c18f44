"""A device for tests that judge many problems, one after the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kernelswarm.hardware.device import Device
from kernelswarm.schemas import HardwareFacts, Pool

IDLE_S = 1.0
"""Each problem reserves a gibibyte of main memory and keeps it for a minute, in case its next candidate comes: the
sixteenth problem would wait for that minute."""


@asynccontextmanager
async def judging_device(pool: Pool, hardware: HardwareFacts, home: Path) -> AsyncIterator[Device]:
    """Eager is its baseline; problems that are not in use give their memory up as soon as another one waits for it."""
    async with Device(pool, hardware, home, baselines=("eager",), secret="tests") as device:
        device.memory._idle_s = IDLE_S
        yield device
