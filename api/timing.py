"""Timing a finished file as the user's own program would see it."""

from collections.abc import Callable
from pathlib import Path

from ..hardware.ordinary.files import TimedFile, time_path
from ..sessions.home import kernelswarm_home
from .progress import progress
from .questions import blocking


def time(
    file: str | Path,
    problem: str | Path | None = None,
    *,
    pool: str = "cpu",
    home: str | Path | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> TimedFile:
    """Time a finished file (``best.py``) against its reference in ordinary processes: what ``kernelswarm time`` does.

    Args:
        file: the finished file.
        problem: the problem's file, where the finished file does not carry it.
        pool: hardware pool.
        home: where caches lie; by default ``KERNELSWARM_HOME`` or the user data folder.
        on_notice: as for :func:`optimize`.

    Raises:
        InputError: a file or the pool cannot be used.
    """
    root = kernelswarm_home(home)

    async def timed() -> TimedFile:
        with progress(on_notice) as say:
            return await time_path(Path(file), None if problem is None else Path(problem), pool, root, say)

    return blocking(timed())
