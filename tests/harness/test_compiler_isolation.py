"""A compiler sees its toolchain and what it compiles, and no other file, process or network."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.machine.compilers import find_compiler
from kernelswarm.hardware.processes.limited_command import Finished, Limits, run_limited
from kernelswarm.schemas import Pool

pytestmark = pytest.mark.asyncio(loop_scope="session")

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))


async def _run(folder: Path, script: str) -> Finished:
    finished = await run_limited(
        ["sh", "-c", script],
        cwd=folder,
        limits=Limits(60.0, 1 << 30, 1 << 20),
        readable=find_compiler(POOL).files,
    )
    if "toolroot" not in finished.isolation:
        pytest.skip(f"this kernel permits no root of its own: {finished.isolation}")
    return finished


async def test_no_other_file_can_be_assembled_in(device: Device, tmp_path: Path) -> None:
    await _run(tmp_path, "true")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for path in ("/etc/passwd", str(secret)):
        source = f"CPP_SOURCE = r'''__asm__(\".incbin \\\"{path}\\\"\");'''\nCPP_FLAGS = []\n"
        report, artifacts = await device.compile(source, "cpp")

        assert not report.ok and not artifacts
        assert "toolroot" in report.isolation and "netns" in report.isolation


async def test_what_it_compiles_can_be_written_and_its_toolchain_cannot(tmp_path: Path) -> None:
    finished = await _run(tmp_path, "echo made > mine && ! touch /usr/other 2>/dev/null && ls /")

    assert finished.returncode == 0, finished.output
    assert (tmp_path / "mine").read_text() == "made\n"
    assert not {"home", "root", "var"} & set(finished.output.split())


async def test_no_other_process_is_seen(tmp_path: Path) -> None:
    finished = await _run(tmp_path, "echo /proc/[0-9]*")

    assert f"/proc/{os.getpid()}" not in finished.output.split()
    assert len(finished.output.split()) <= 4


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -6 $$", 134), ("kill -9 $$", 137)])
async def test_its_end_is_told(tmp_path: Path, script: str, status: int) -> None:
    assert (await _run(tmp_path, script)).returncode == status


def _is_read(fifo: Path) -> bool:
    """Whether somebody has it open for reading."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


async def test_it_ends_in_time_with_all_it_started(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    finished = await run_limited(
        ["sh", "-c", "sleep 600 & cat < fifo"],
        cwd=tmp_path,
        limits=Limits(1.0, 1 << 30, 1 << 20),
        readable=find_compiler(POOL).files,
    )

    assert finished.timed_out
    for _ in range(1000):  # its group was killed at once, and each of it dies when it is next scheduled
        if not _is_read(fifo):
            break
        await asyncio.sleep(0.01)
    assert not _is_read(fifo)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
