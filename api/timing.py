"""Timing a finished file as the user's own program would see it."""

from pathlib import Path

from ..hardware.ordinary.files import TimedFile, time_path
from ..sessions.home import kernelswarm_home
from .questions import blocking


def time(
    file: str | Path, problem: str | Path | None = None, *, pool: str = "cpu", home: Path | None = None
) -> TimedFile:
    """Time a finished file (``best.py``) against its reference in ordinary processes: what ``kernelswarm time`` does.

    Args:
        file: the finished file.
        problem: the problem's file, where the finished file does not carry it.
        pool: hardware pool.
        home: where caches lie; by default ``KERNELSWARM_HOME`` or the user data folder.

    Raises:
        InputError: a file or the pool cannot be used.
    """
    root = home or kernelswarm_home()
    return blocking(time_path(Path(file), None if problem is None else Path(problem), pool, root))
