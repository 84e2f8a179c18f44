"""An export that is cancelled, stopped or killed leaves nothing, or what the next one to the same place takes away."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from story import story, wire
from waiting import eventually, within

from kernelswarm.store import Log, log_path, write_export

ENDLESS = "(SELECT count(*) FROM events a, events b, events c, events d, events e, events f, events g, events h) > 0"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    with Log.open(log_path(home)) as log:
        log.append(wire([envelope for number in range(20) for envelope in story(f"rmsnorm-{number}")]))
    return home


def inside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def begun(tmp_path: Path) -> None:
    async def partial() -> bool:
        return any(name.endswith(".partial") for name in inside(tmp_path))

    assert await eventually(partial, True)


@pytest.mark.parametrize("format", ["sft", "events", "parquet"])
async def test_a_cancelled_export_has_ended_and_left_nothing(home: Path, tmp_path: Path, format: str) -> None:
    threads = set(threading.enumerate())
    export = asyncio.create_task(write_export(home, format, tmp_path / "out", where=ENDLESS))
    await begun(tmp_path)
    export.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(export)
    assert inside(tmp_path) == ["home"]
    with Log.open(log_path(home)) as log:
        assert log.verify().ok, "nobody has the log any more"
    watching = {thread.name for thread in threading.enumerate() if thread not in threads}
    assert "query-limits" not in watching


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_a_stopped_export_leaves_nothing_and_a_killed_one_what_the_next_takes_away(
    home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "kernelswarm.cli", "export", "--format", "events", "--where", ENDLESS]
    environment = {**os.environ, "KERNELSWARM_HOME": str(home)}
    process = await asyncio.create_subprocess_exec(
        *command, "--out", str(tmp_path / "out"), env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        await begun(tmp_path)
        process.send_signal(number)
        _, stderr = await within(process.communicate())
    finally:
        if process.returncode is None:
            process.kill()
    killed = number is signal.SIGKILL
    assert process.returncode == (-number if killed else 130), stderr
    assert len(inside(tmp_path)) == (2 if killed else 1)
    await write_export(home, "events", tmp_path / "out")
    assert inside(tmp_path) == ["home", "out"]


async def test_an_export_that_goes_on_keeps_its_folder_when_another_begins(home: Path, tmp_path: Path) -> None:
    with Log.open(log_path(home)):
        first = asyncio.create_task(write_export(home, "events", tmp_path / "out", where=ENDLESS))
        await begun(tmp_path)
        (partial,) = (name for name in inside(tmp_path) if name.endswith(".partial"))
        await write_export(home, "sft", tmp_path / "out")
        assert inside(tmp_path) == sorted([partial, "home", "out"])
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    assert inside(tmp_path) == ["home", "out"]
