"""Where everything the program keeps lies: the log, the server's data, caches, the pools' measured peaks."""

import os
from pathlib import Path

from platformdirs import user_data_path

from ..schemas import InputError


def kernelswarm_home(given: str | Path | None = None) -> Path:
    """The folder ``given``, else ``KERNELSWARM_HOME``, by default the user data folder; made if it is not there.

    Raises:
        InputError: it cannot be made or written.
    """
    default = os.environ.get("KERNELSWARM_HOME") or user_data_path("kernelswarm", appauthor=False)
    home = Path(given or default).absolute()
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(
            f"cannot make {home}: {error.strerror}; set KERNELSWARM_HOME to a folder you can write"
        ) from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise InputError(f"cannot write in {home}; set KERNELSWARM_HOME to a folder you can write")
    return home
