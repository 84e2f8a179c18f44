"""The server's disk: a small file system of its own where that is permitted, so that it can be full."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOMY = "512m"


class Disk:
    """A folder on a tmpfs that can be made as small as what is in it."""

    def __init__(self, folder: Path, reason: str) -> None:
        self._folder = folder
        self.reason = reason
        """Why it cannot be filled; empty if it can."""

    @classmethod
    @contextmanager
    def under(cls, folder: Path) -> "Iterator[Disk]":
        """Mount one on ``folder``, if this process may."""
        reason = _mount("-t", "tmpfs", "-o", f"size={_ROOMY}", "tmpfs", str(folder))
        try:
            yield cls(folder, reason)
        finally:
            if not reason:
                subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)

    def fill(self) -> None:
        """Leave no room."""
        state = os.statvfs(self._folder)
        used = (state.f_blocks - state.f_bfree) * state.f_frsize
        _mount("-o", f"remount,size={max(used, state.f_frsize)}", str(self._folder))

    def free(self) -> None:
        """Make room again."""
        _mount("-o", f"remount,size={_ROOMY}", str(self._folder))


def _mount(*arguments: str) -> str:
    """What went wrong, in a sentence; empty if nothing did."""
    if shutil.which("mount") is None:
        return "there is no mount command"
    done = subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"mounting a small file system is not permitted here: {done.stderr.strip()}"
