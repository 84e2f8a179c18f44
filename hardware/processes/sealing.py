"""Memory files that nobody can change any more, whoever still holds them."""

import fcntl
import os
import stat

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def seal(file: int) -> None:
    """Fix the contents of a memory file that permits it.

    Raises:
        OSError: somebody has it mapped to write there.
    """
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)


def may_change(file: int) -> bool:
    """Whether somebody may still change a file. What is none, such as a device's memory, is not asked about."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return False
    try:
        return fcntl.fcntl(file, fcntl.F_GET_SEALS) & _SEALS != _SEALS
    except OSError:
        return True
