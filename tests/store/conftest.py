import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from kernelswarm.store import Log, log_path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(log_path(tmp_path)) as log:
        yield log


@pytest.fixture
async def python() -> AsyncIterator[Callable]:
    """Starts another Python process; its stdin and stdout are pipes. It is gone after the test."""
    started: list[asyncio.subprocess.Process] = []

    async def start(code: str, *arguments: object) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        path = Path(__file__).parents[1] / "support"
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(path)!r})\n{code}",
            *map(str, arguments),
            stdin=pipe,
            stdout=pipe,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        process.stdin.close()
        await process.communicate()
