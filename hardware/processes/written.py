"""How much a child has written: into its folder, and into files without a name, in memory or removed.

Limits of the kernel hold for each file, or for what is mapped. What nobody counts otherwise are many files, and memory
files that are written and not mapped.
"""

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator

_BLOCK = 512
"""Bytes, whatever the file system's are (stat(2))."""
MOST_FILES = 100_000
"""Each takes memory of the kernel, too."""


class TooMany(Exception):
    """There are more than :data:`MOST_FILES`."""


def written_bytes(folder: str, pid: int) -> int:
    """Bytes that files under ``folder`` take, and files without a name that process ``pid`` has open; 0: none is asked.

    Raises:
        TooMany: of either.
    """
    total, seen = 0, set[tuple[int, int]]()
    for count, found in enumerate(itertools.chain(_under(folder), _open_without_a_name(pid) if pid else ())):
        if count >= MOST_FILES:
            raise TooMany
        if (found.st_dev, found.st_ino) not in seen:
            seen.add((found.st_dev, found.st_ino))
            total += found.st_blocks * _BLOCK
    return total


def _under(folder: str) -> Iterator[os.stat_result]:
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)


def _open_without_a_name(pid: int) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - it is asked twice a second
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    yield found
