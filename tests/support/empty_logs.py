"""New logs of tests are copies of one empty log: to make its tables, views and comments takes 0.2 CPU seconds.

Programs that a test starts make their own.
"""

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from kernelswarm.store import database, log_path

Connect = Callable[..., duckdb.DuckDBPyConnection]


def copied_from(folder: Path, connect: Connect) -> Connect:
    """``connect``, of :mod:`kernelswarm.store.database`, that copies the log in ``folder`` where there is none yet."""
    empty = log_path(folder)

    def copying(path: Path, *, read_only: bool, **options: Any) -> duckdb.DuckDBPyConnection:
        is_copy = not read_only and path != empty and not path.exists() and _copy(empty, path)
        con = connect(path, read_only=read_only, **options)
        if is_copy:
            for key, value in (("log_id", uuid.uuid4().hex), ("created_ns", str(time.time_ns()))):
                database.write_meta(con, key, value)
            con.execute("CHECKPOINT")
        return con

    return copying


def _copy(empty: Path, path: Path) -> bool:
    """Whether ``path`` is a copy now; else another process was faster, or nobody may write there."""
    if not empty.exists():
        database.open_database(empty, read_only=False)[0].close()
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        try:
            shutil.copyfile(empty, part)
            os.link(part, path)
            return True
        finally:
            part.unlink(missing_ok=True)
    return False
