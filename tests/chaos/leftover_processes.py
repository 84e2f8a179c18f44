"""Whose parent dies comes to us: so nothing that a killed process leaves behind can hide. Linux only."""

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import Collection
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_AGAIN_S = 0.05


def adopt(yes: bool) -> None:
    """Become, or cease to be, the parent of orphaned descendants. Does nothing where the kernel knows no such thing."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)


async def remaining(pids: Collection[int], patience_s: float) -> list[str]:
    """Children of this process beside ``pids`` that are still there after ``patience_s`` seconds, as people read them.

    What has ended is reaped.
    """
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        left = [pid for pid in children(os.getpid()) if pid not in pids and not _reaped(pid)]
        if not left or asyncio.get_running_loop().time() > deadline:
            return [f"{pid} ({_command(pid)})" for pid in left]
        await asyncio.sleep(_LOOK_AGAIN_S)  # it is not ours to wait for


def children(pid: int) -> list[int]:
    """Direct children of a process; none if it has ended."""
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            pids += map(int, (task / "children").read_text().split())
    return pids


def descendants(pid: int) -> list[int]:
    """Everything below a process, parents first."""
    pids = children(pid)
    for child in pids:
        pids += children(child)  # grows while it is walked
    return pids


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:120]
    except OSError:
        return "gone"
